#include "serve/api/field_table.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "serve/api/api_error.h"

namespace ballast::serve {
namespace {

std::string refused_field(const std::string& body, Endpoints endpoint) {
  try {
    check_fields(RequestFields(body), endpoint);
    return {};
  } catch (const ApiError& error) {
    return nlohmann::json::parse(error.body(ErrorForm::kOpenAi))["error"]["param"];
  }
}

TEST_CASE("docs/server.md has the table of fields that the server uses") {
  std::ifstream file(std::filesystem::path(BALLAST_TEST_DATA) / "../../docs/server.md");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string wanted = "| field | of | |\n|---|---|---|\n" + field_table_rows() + "\n";
  // If the check fails, this text belongs there.
  CAPTURE(wanted);
  CHECK(text.str().contains(wanted));
}

TEST_CASE("each field is in the table once, and its neutral values are a list") {
  std::set<std::string_view> names;
  for (const KnownField& field : known_fields()) {
    CAPTURE(field.name);
    CHECK(names.insert(field.name).second);
    CHECK((field.neutral.empty() ||
           (field.use == KnownField::Use::kRefused && nlohmann::json::parse(field.neutral).is_array())));
  }
}

TEST_CASE("a refused field is accepted if it is null or neutral, and by other endpoints") {
  CHECK(refused_field(R"({"use_beam_search": true})", kChats) == "use_beam_search");
  CHECK(refused_field(R"({"use_beam_search": false, "typical_p": 1.0, "mirostat": 0, "top_n_sigma": -1.0})", kChats)
            .empty());
  CHECK(refused_field(R"({"use_beam_search": null, "audio": null, "unknown_field": 1})", kChats).empty());
  CHECK(refused_field(R"({"use_beam_search": true})", kTokenize).empty());
  CHECK(refused_field(R"({"mcp_servers": [{}]})", kMessages) == "mcp_servers");
  CHECK(refused_field(R"({"background": false})", kResponses).empty());
  CHECK(refused_field(R"({"background": true})", kResponses) == "background");
}

}  // namespace
}  // namespace ballast::serve
