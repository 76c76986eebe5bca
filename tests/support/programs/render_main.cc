// Renders chat templates, for scripts/compare_templates.py: a line of JSON in, {"template", "trusted", "from_user",
// "now" (a Unix time, taken as UTC)}; a line of JSON out, {"text", "from_user" (ranges of bytes)} or {"error"}.
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "ballast/error.h"
#include "text/template/template.h"

namespace {

using ballast::text::jinja::Rendered;
using ballast::text::jinja::Template;
using ballast::text::jinja::Variables;
using nlohmann::ordered_json;

ordered_json render(const ordered_json& request) {
  Variables variables{.trusted = request.at("trusted"), .from_user = request.at("from_user")};
  const auto now = request.at("now").get<std::time_t>();
  gmtime_r(&now, &variables.now);
  try {
    const Rendered rendered = Template(request.at("template").get<std::string>()).render(variables);
    ordered_json ranges = ordered_json::array();
    for (const auto& range : rendered.from_user) ranges.push_back({range.begin, range.end});
    return {{"text", rendered.text}, {"from_user", ranges}};
  } catch (const ballast::Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << render(ordered_json::parse(line)).dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  }
  return 0;
}
