// The frame of a page, its sections, and a row of key figures.
#ifndef BALLAST_REPORT_CHART_PAGE_H_
#define BALLAST_REPORT_CHART_PAGE_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast::report {

struct Page {
  std::string title;     ///< of the window. Plain text
  std::string eyebrow;   ///< above the headline. HTML
  std::string headline;  ///< plain text
  std::string header;    ///< below the headline. HTML
  std::string content;   ///< HTML
  std::string footer;    ///< HTML
  std::string script;    ///< JavaScript, may be empty: the page must be complete without it
};

/// Returns the whole self-contained document with its style sheet.
std::string page_html(const Page& page);

/// `heading` and `content` are HTML.
std::string section(std::string_view heading, const std::string& content);

struct Fact {
  std::string value;  ///< HTML, as `meaning`
  std::string meaning;
};

/// Returns an empty string for no facts.
std::string facts_html(const std::vector<Fact>& facts);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_PAGE_H_
