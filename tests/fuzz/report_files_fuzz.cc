
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "eval/report/measurement_input.h"
#include "eval/report/published.h"
#include "tests/fuzz/fuzz.h"

// What `nibble report` reads beside records: what other commands printed, and published figures.
NIBBLE_FUZZ(input) {
  nibble::eval::ReportInput report;
  try {
    nibble::eval::add_measurement(nibble::parse_strict_json(input, "input"), "input", report);
  } catch (const nibble::FormatError& error) {
    nibble::fuzz::refused(error);
  }
  nibble::eval::load_published(nibble::fuzz::file("published.json", input));
}
