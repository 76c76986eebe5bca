#include "report/chart/page.h"

#include "report/chart/colours.h"
#include "report/chart/style.h"
#include "report/chart/text.h"

namespace ballast::report {

std::string page_html(const Page& page) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         escape(page.title) + "</title>\n<style>" + kStyle + ramp_css() +
         "</style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"eyebrow\">" + page.eyebrow + "</p>\n<h1>" +
         escape(page.headline) + "</h1>\n" + page.header + "</header>\n" + page.content + "<footer>" + page.footer +
         "</footer>\n</main>\n" + (page.script.empty() ? "" : "<script>" + page.script + "</script>\n") +
         "</body>\n</html>\n";
}

std::string section(std::string_view heading, const std::string& content) {
  return "<section>\n<h2>" + std::string(heading) + "</h2>\n" + content + "</section>\n";
}

std::string facts_html(const std::vector<Fact>& facts) {
  if (facts.empty()) return {};
  std::string html = "<dl class=\"facts\">\n";
  for (const Fact& fact : facts) {
    html += "<div><dt>" + fact.meaning + "</dt><dd>" + fact.value + "</dd></div>\n";
  }
  return html + "</dl>\n";
}

}  // namespace ballast::report
