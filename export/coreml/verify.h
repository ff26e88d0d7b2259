#pragma once

#include "export/coreml/package.h"

namespace nibble::coreml {

/// Checks a package as it lies on disk, for what coremltools' loader lets pass too. Throws FormatError naming function
/// and value:
/// - specification version and opset; functions and their descriptions; inputs, outputs and states of both with types,
///   shapes and finite ranges; no output that is an input or feeds a state
/// - names: identifiers, each defined once and before it is used; attributes
/// - constants: declared types, blobs that are there with the right type and size, none that nobody uses
/// - every operation's operands and declared result types (type_inference.h)
/// - where states are written (verify_slots())
void verify_package(const Package& package);

/// What goes where in the states of a function. States of all blocks: every block writes its own part, once, at rows
/// S - T … S - 1 of what the inputs' shapes say, and reads rows 0 … S - 1 of that same part after writing it. States of
/// one block: each is read, joined with the new rows, and its newest rows are written back, once. Throws FormatError.
void verify_slots(const Function& function);

}  // namespace nibble::coreml
