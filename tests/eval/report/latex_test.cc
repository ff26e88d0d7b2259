#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "eval/report/build_report.h"
#include "eval/report/report_input.h"
#include "eval/report/writers.h"
#include "tests/eval/report/example_sweep.h"
#include "tests/support/files.h"
#include "tests/support/run_program.h"

namespace nibble::eval {
namespace {

// A pdfTeX to compile with: of PDFLATEX, or where Debian puts it. Empty where there is none.
std::string pdflatex() {
  if (const char* path = std::getenv("PDFLATEX")) return path;
  return std::filesystem::exists("/usr/bin/pdflatex") ? "/usr/bin/pdflatex" : "";
}

// The log of a run over a document that has nothing but the report. Fails for any error of LaTeX.
std::string compiled(const std::vector<SweepRecord>& records) {
  const test::TempDir directory;
  test::write_records(directory.path(), records);
  ReportInput input = load_report_input({directory.path()});
  compare_to_baseline(input, "");
  test::write_file(directory / "report.tex", tex_report(build_report(input, {})));
  test::write_file(directory / "paper.tex",
                   "\\documentclass{article}\\usepackage[T1]{fontenc}"
                   "\\usepackage{array,booktabs,longtable,textcomp}\\usepackage[margin=2cm]{geometry}"
                   "\\begin{document}\\input{" +
                       (directory / "report").string() + "}\\end{document}");
  const test::ProgramRun run =
      test::run_program(pdflatex(), {"-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape",
                                     "-output-directory=" + directory.path().string(), directory / "paper.tex"});
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_TRUE(std::filesystem::exists(directory / "paper.pdf"));
  return run.out;
}

TEST(ReportInLatex, CompilesAndNoTableLeavesThePage) {
  if (pdflatex().empty()) GTEST_SKIP() << "needs LaTeX (set PDFLATEX to its path)";
  const std::string log = compiled(test::example_sweep());
  EXPECT_EQ(log.find("Overfull"), std::string::npos) << log;
}

TEST(ReportInLatex, CompilesWithHostileNames) {
  if (pdflatex().empty()) GTEST_SKIP() << "needs LaTeX (set PDFLATEX to its path)";
  compiled(test::hostile_sweep("\\input{/etc/passwd}\\end{document}%#$&_^~[]|\"<>` \x01\n\n\\par ± ë 模型 🙂"));
}

}  // namespace
}  // namespace nibble::eval
