#include "eval/report/text_escape.h"

#include <gtest/gtest.h>

namespace nibble::eval {
namespace {

TEST(TextEscape, HtmlIsHarmlessInContentAndAttributes) {
  EXPECT_EQ(html_text("</script><b a=\"1\" c='2'>&"), "&lt;/script&gt;&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
}

TEST(TextEscape, TexCommandsBecomeText) {
  EXPECT_EQ(tex_text("\\input{/etc/passwd}%$&#_^~"),
            "\\textbackslash{}input\\{/etc/passwd\\}\\%\\$\\&\\#\\_\\textasciicircum{}\\textasciitilde{}");
  EXPECT_EQ(tex_text("a ± b → [c]"), "a $\\pm$ b $\\rightarrow$ {[}c{]}");
  EXPECT_EQ(tex_text("^^5cinput"), "\\textasciicircum{}\\textasciicircum{}5cinput");
  EXPECT_EQ(tex_text("Łódź, 模型 🙂"), "Łódź, U+6A21U+578B U+1F642");
}

TEST(TextEscape, MarkdownCellsStayCells) {
  EXPECT_EQ(markdown_text("a | b\n# c <img src=x> [d](javascript:e) `f`"),
            "a \\| b # c &lt;img src=x&gt; \\[d\\](javascript:e) \\`f\\`");
}

TEST(TextEscape, SpreadsheetsSeeNoFormulas) {
  EXPECT_EQ(csv_text("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
  EXPECT_EQ(csv_text("+1+1"), "\"'+1+1\"");
  EXPECT_EQ(csv_text("@SUM(A1)"), "\"'@SUM(A1)\"");
  EXPECT_EQ(csv_text("-1.5"), "\"-1.5\"") << "a number is no formula";
  EXPECT_EQ(csv_text("a \"b\", c\r\nd"), "\"a \"\"b\"\", c  d\"");
}

TEST(TextEscape, ControlCharactersAndBrokenUtf8AreReplaced) {
  EXPECT_EQ(html_text(std::string_view("a\0b\x1b[31m\x7f", 9)), "a b [31m ");
  EXPECT_EQ(html_text("\xC0\xAF"
                      "x\xED\xA0\x80\xE2\x82"),
            "\xEF\xBF\xBD\xEF\xBF\xBD"
            "x\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(html_text("é→𝄞"), "é→𝄞");
}

}  // namespace
}  // namespace nibble::eval
