#include <gtest/gtest.h>

#include <cstdlib>

#include "eval/report/build_report.h"
#include "eval/report/report_input.h"
#include "eval/report/writers.h"
#include "tests/eval/report/example_sweep.h"
#include "tests/support/files.h"
#include "tests/support/run_program.h"

namespace nibble::eval {
namespace {

// A Chromium to look at the page with: of CHROMIUM, or where Debian puts it. Empty where there is none.
std::string chromium() {
  if (const char* path = std::getenv("CHROMIUM")) return path;
  return std::filesystem::exists("/usr/bin/chromium") ? "/usr/bin/chromium" : "";
}

TEST(ReportInABrowser, OpensFromTheFileSystemAndRunsItsScript) {
  const std::string browser = chromium();
  if (browser.empty()) GTEST_SKIP() << "needs Chromium (set CHROMIUM to its path)";
  const test::TempDir directory;
  test::write_records(directory.path(), test::example_sweep());
  ReportInput input = load_report_input({directory.path()});
  compare_to_baseline(input, "");
  test::write_file(directory / "report.html", html_report(build_report(input, {})));

  const test::ProgramRun run = test::run_program(
      browser, {"--headless=new", "--no-sandbox", "--disable-gpu",
                "--user-data-dir=" + (directory / "profile").string(), "--virtual-time-budget=5000",
                "--enable-logging=stderr", "--dump-dom", "file://" + (directory / "report.html").string()});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  // The script ran to its end: the theme button has its text, tables sort, tooltips took over from titles.
  EXPECT_NE(run.out.find(">Dark page</button>"), std::string::npos);
  EXPECT_NE(run.out.find("<th scope=\"col\"><button type=\"button\">"), std::string::npos);
  EXPECT_EQ(run.out.find("<g class=\"item\" tabindex=\"0\" role=\"img\"><title>"), std::string::npos);
  EXPECT_EQ(run.err.find("CONSOLE"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace nibble::eval
