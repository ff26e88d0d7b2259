#include "cli/program.h"

int main(int argc, char** argv) { return nibble::cli::run_program(argc, argv); }
