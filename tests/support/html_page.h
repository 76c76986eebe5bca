// Checks that hold for every page that ballast writes.
#ifndef BALLAST_TESTS_SUPPORT_HTML_PAGE_H_
#define BALLAST_TESTS_SUPPORT_HTML_PAGE_H_

#include <doctest/doctest.h>

#include <cctype>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::test {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns whether a text has the word without a letter before it.
inline bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (at == 0 || std::isalpha(static_cast<unsigned char>(text[at - 1])) == 0) return true;
  }
  return false;
}

inline std::string body(const std::string& page) {
  return page.substr(page.find("<body>"));
}

// Drops the text between tags; checks that tags nest, and returns the ids.
inline std::multiset<std::string> ids_of_well_formed(const std::string& html) {
  std::multiset<std::string> ids;
  std::vector<std::string> open;
  for (std::size_t begin = html.find('<'); begin != std::string::npos; begin = html.find('<', begin + 1)) {
    const std::size_t end = html.find('>', begin);
    REQUIRE(end != std::string::npos);
    const std::string tag = html.substr(begin + 1, end - begin - 1);
    REQUIRE_FALSE(contains(tag, "<"));
    const std::string name = tag.substr(0, tag.find(' '));
    if (name.front() == '/') {
      REQUIRE_FALSE(open.empty());
      REQUIRE(name.substr(1) == open.back());
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    if (const std::size_t id = tag.find(" id=\""); id != std::string::npos) {
      ids.insert(tag.substr(id + 5, tag.find('"', id + 5) - id - 5));
    }
  }
  CHECK(open == std::vector<std::string>{"html"});  // opened before the body
  return ids;
}

/// Checks that a page is well formed and self-contained, and has no NaN or infinity.
inline void check_page(const std::string& page) {
  CHECK(page.starts_with("<!DOCTYPE html>"));
  std::string inside = body(page);
  inside.resize(inside.rfind("</html>"));
  if (const std::size_t script = inside.find("<script>"); script != std::string::npos) {
    inside.erase(script, inside.find("</script>") + 9 - script);
  }
  const std::multiset<std::string> ids = ids_of_well_formed("<html>" + inside);
  CHECK(std::set<std::string>(ids.begin(), ids.end()).size() == ids.size());
  CHECK_FALSE(has_word(inside, "nan"));
  CHECK_FALSE(has_word(inside, "inf"));
  for (const std::string_view elsewhere : {"http:", "https:", "src=", "href=", "url(", "@import"}) {
    CHECK_FALSE(contains(page, elsewhere));
  }
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_HTML_PAGE_H_
