#include "serve/api/infill_format.h"

#include <array>
#include <string_view>
#include <utility>

#include "files/text.h"
#include "serve/api/constraint_fields.h"
#include "serve/api/field_table.h"
#include "serve/api/json_text.h"

namespace ballast::serve {
namespace {

constexpr std::size_t kMostFiles = 1024;

}  // namespace

GapRequest read_infill(const RequestFields& fields, const ModelFacts& model) {
  constexpr std::array<std::string_view, 2> kLimits = {"n_predict", "max_tokens"};
  check_fields(fields, kCompletions);
  GapRequest request = {.before = fields.text("input_prefix").value_or(""),
                        .after = fields.text("input_suffix").value_or(""),
                        .begun = fields.text("prompt").value_or(""),
                        .files = {},
                        .generation = read_generation(fields, model),
                        .limit = read_answer_limit(fields, kLimits),
                        .stream = fields.flag("stream", false)};
  for (const char* field : {"input_prefix", "input_suffix"}) {
    if (!fields.has(field)) throw ApiError(400, files::concat(field, ": is missing"), field);
  }
  if (request.generation.choices != 1) throw ApiError(400, "n: a gap gets one text", "n");
  fields.read("input_extra", [&](const files::JsonReader& extra) {
    const std::vector<files::JsonReader> files = extra.elements();
    if (files.size() > kMostFiles) extra.fail(files::concat("at most ", kMostFiles, " are possible"));
    for (const files::JsonReader& file : files) {
      request.files.push_back({.name = file.text("filename", "file"), .text = file.text("text")});
    }
    return true;
  });
  FieldConstraint constraint = read_constraint(fields);
  request.generation.options.constraint = std::move(constraint.constraint);
  request.constraint_field = std::move(constraint.field);
  return request;
}

void InfillFormat::see(const AnswerPiece& piece) {
  if (!piece.end) return;
  if (piece.end->finish != GenerateResult::Finish::kStop) {
    stop_type_ = "limit";
  } else if (!piece.end->stop_string.empty()) {
    stop_type_ = "word";
    stop_string_ = piece.end->stop_string;
  }
}

std::string InfillFormat::write_piece(const AnswerPiece& piece) {
  see(piece);
  const std::string text = joined_text(piece.parts, ReplyKind::kAnswer);
  if (text.empty()) return {};
  return event_text({}, json_text({{"index", 0}, {"content", text}, {"stop", false}}));
}

std::string InfillFormat::end_stream(const RequestUsage& usage) {
  return event_text({}, json_text(last_json({}, usage)));
}

void InfillFormat::add_choice(const AnswerPiece& choice, std::string& /*body*/) {
  see(choice);
  content_ = joined_text(choice.parts, ReplyKind::kAnswer);
}

void InfillFormat::end_body(const RequestUsage& usage, std::string& body) {
  body = json_text(last_json(std::move(content_), usage));
}

nlohmann::ordered_json InfillFormat::last_json(std::string content, const RequestUsage& usage) const {
  return {{"index", 0},
          {"content", std::move(content)},
          {"model", model_},
          {"stop", true},
          {"stop_type", stop_type_},
          {"stopping_word", stop_string_},
          {"tokens_predicted", usage.generated_tokens},
          {"tokens_evaluated", prompt_tokens_},
          {"tokens_cached", usage.cached_tokens},
          {"truncated", false}};
}

}  // namespace ballast::serve
