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

// What a reader with a keyboard does, as a script at the end of the page: it writes what fails into the page.
constexpr std::string_view kKeyboard = R"js(<script>{
const failed = [], check = (what, holds) => { if (!holds) failed.push(what); };
const mark = document.querySelector('svg .item'), tip = document.getElementById('tip');
mark.focus();
check('marks take the focus', document.activeElement === mark);
check('a focused mark says its numbers', !tip.hidden && tip.textContent === mark.getAttribute('aria-label'));
dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
check('Escape closes', tip.hidden);
const table = document.querySelector('main table'), head = table.tHead.rows[0].cells[1], press = head.querySelector('button');
press.focus();
check('heads take the focus', document.activeElement === press);
const column = () => [...table.tBodies[0].rows].map(row => parseFloat(row.cells[1].textContent));
const sorted = (a, sign) => a.every((x, i) => i === 0 || sign * (x - a[i - 1]) >= 0);
press.click();
check('sorts upwards', sorted(column(), 1) && head.getAttribute('aria-sort') === 'ascending');
press.click();
check('sorts downwards', sorted(column(), -1) && head.getAttribute('aria-sort') === 'descending');
const details = document.querySelector('details'), summary = details.querySelector('summary');
summary.focus(); summary.click();
check('tables of figures unfold', document.activeElement === summary && details.open);
const wide = document.documentElement.scrollWidth > innerWidth;
check('the page is no wider than its window', !wide);
document.documentElement.dataset.failed = failed.join('; ') || 'nothing';
}</script>)js";

class ReportInABrowser : public testing::Test {
 protected:
  void SetUp() override {
    if (chromium().empty()) GTEST_SKIP() << "needs Chromium (set CHROMIUM to its path)";
    test::write_records(directory_.path(), test::example_sweep());
    ReportInput input = load_report_input({directory_.path()});
    compare_to_baseline(input, "");
    page_ = html_report(build_report(input, {}));
  }
  // The page after its scripts have run.
  test::ProgramRun open(const std::string& page, const std::string& window = "1200,800") {
    test::write_file(directory_ / "report.html", page);
    test::ProgramRun run = test::run_program(
        chromium(), {"--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=" + window,
                     "--user-data-dir=" + (directory_ / "profile").string(), "--virtual-time-budget=5000",
                     "--enable-logging=stderr", "--dump-dom", "file://" + (directory_ / "report.html").string()});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.err.find("CONSOLE"), std::string::npos) << run.err;
    return run;
  }
  test::TempDir directory_;
  std::string page_;
};

TEST_F(ReportInABrowser, OpensFromTheFileSystemAndRunsItsScript) {
  const test::ProgramRun run = open(page_);
  // The script ran to its end: the theme button has its text, tables sort, tooltips took over from titles.
  EXPECT_NE(run.out.find(">Dark page</button>"), std::string::npos);
  EXPECT_NE(run.out.find("<th scope=\"col\"><button type=\"button\">"), std::string::npos);
  EXPECT_EQ(run.out.find("<g class=\"item\" tabindex=\"0\" role=\"img\"><title>"), std::string::npos);
}

TEST_F(ReportInABrowser, IsUsableByKeyboardInWindowsWideAndNarrow) {
  for (const char* window : {"1200,800", "500,800"}) {
    const test::ProgramRun run = open(page_ + std::string(kKeyboard), window);
    EXPECT_NE(run.out.find("data-failed=\"nothing\""), std::string::npos) << window << ": " << run.out.substr(0, 200);
  }
}

}  // namespace
}  // namespace nibble::eval
