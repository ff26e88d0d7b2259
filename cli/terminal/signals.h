#pragma once

namespace nibble::cli {

/// Ctrl-C and SIGTERM leave at once with exit code 130: outputs carry their final names only when complete, so there is
/// nothing to tidy up. A reader that goes away (`nibble … | head`) ends the program silently.
void install_signal_handlers();

}  // namespace nibble::cli
