// The fields of requests that OpenAI's, vLLM's and llama-server's APIs have, and what the server does with each.
#ifndef BALLAST_SERVE_API_FIELD_TABLE_H_
#define BALLAST_SERVE_API_FIELD_TABLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "serve/api/request_fields.h"

namespace ballast::serve {

/// Endpoints with fields of their own, to be combined.
enum Endpoints : std::uint8_t {
  kCompletions = 1,
  kChats = 2,
  kTemplates = 4,  ///< /apply-template
  kEmbeddings = 8,
  kTokenize = 16,
  kDetokenize = 32,
  kTexts = kCompletions | kChats,
  kAllEndpoints = 63,
};

struct KnownField {
  enum class Use {
    kHonoured,
    kRefused,  ///< but for null and its neutral values: another one would change the answer
    kIgnored,  ///< no value changes the answer
  };

  std::string_view name;
  std::uint8_t endpoints;
  Use use;
  std::string_view note{};     ///< what it does, what to send instead, or why nothing depends on it
  std::string_view neutral{};  ///< of a refused field: a JSON list of the values that change nothing
};

/// Every field, in the order of docs/server.md. A field that is not there is ignored.
std::span<const KnownField> known_fields();

/// Throws ApiError naming a field whose value would change the answer in a way that the server does not know.
void check_fields(const RequestFields& fields, Endpoints endpoint);

/// The rows of the table in docs/server.md, which a test holds equal.
std::string field_table_rows();

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_FIELD_TABLE_H_
