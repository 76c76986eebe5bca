// The fields of OpenAI's, vLLM's and llama-server's requests, and how the server treats each.
#ifndef BALLAST_SERVE_API_FIELD_TABLE_H_
#define BALLAST_SERVE_API_FIELD_TABLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "serve/api/request_fields.h"

namespace ballast::serve {

/// Endpoints that have their own fields; a set of flags.
enum Endpoints : std::uint16_t {
  kCompletions = 1,
  kChats = 2,
  kTemplates = 4,  ///< /apply-template
  kEmbeddings = 8,
  kTokenize = 16,
  kDetokenize = 32,
  kResponses = 64,
  kMessages = 128,
  kReranks = 256,
  kScores = 512,
  kClassifications = 1024,
  kTranslations = 2048,
  kTexts = kCompletions | kChats,
  kAllEndpoints = 4095,
};

struct KnownField {
  enum class Use {
    kHonoured,
    kRefused,  ///< except for null and its neutral values: other values would change the answer
    kIgnored,  ///< no value changes the answer
  };

  std::string_view name;
  std::uint16_t endpoints;
  Use use;
  std::string_view note{};     ///< its effect, a replacement, or the reason why it changes no answer
  std::string_view neutral{};  ///< for a refused field: a JSON list of the values without effect
};

/// Returns all fields in the order of docs/server.md. Fields that are not in the list are ignored.
std::span<const KnownField> known_fields();

/// Throws ApiError naming a field whose value would change the answer in a way that the server does not support.
void check_fields(const RequestFields& fields, Endpoints endpoint);

/// Returns the rows of the table in docs/server.md; a test compares them.
std::string field_table_rows();

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_FIELD_TABLE_H_
