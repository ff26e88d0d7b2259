#include "tests/cli/nibble.h"
