// POST /infill: llama-server's API for the text in a gap.
#ifndef BALLAST_SERVE_API_INFILL_FORMAT_H_
#define BALLAST_SERVE_API_INFILL_FORMAT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/answer_format.h"
#include "serve/api/generation_fields.h"
#include "text/infill.h"

namespace ballast::serve {

struct GapRequest {
  std::string before;
  std::string after;
  std::string begun;
  std::vector<text::InfillFile> files;
  GenerationRequest generation;
  std::string constraint_field{};  ///< the field that has generation.options.constraint
  AnswerLimit limit;
  bool stream = false;
};

/// Throws ApiError.
GapRequest read_infill(const RequestFields& fields, const ModelFacts& model);

/// Writes llama-server's own form of a text.
class InfillFormat : public AnswerFormat {
 public:
  InfillFormat(std::string model, std::size_t prompt_tokens)
      : model_(std::move(model)), prompt_tokens_(prompt_tokens) {}

  std::string begin_stream(std::size_t /*choices*/) override { return {}; }
  std::string write_piece(const AnswerPiece& piece) override;
  std::string end_stream(const RequestUsage& usage) override;
  void add_choice(const AnswerPiece& choice, std::string& body) override;
  void end_body(const RequestUsage& usage, std::string& body) override;

 private:
  nlohmann::ordered_json last_json(std::string content, const RequestUsage& usage) const;
  void see(const AnswerPiece& piece);

  std::string model_;
  std::size_t prompt_tokens_;
  std::string content_;  ///< of a body
  std::string stop_type_ = "eos";
  std::string stop_string_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_INFILL_FORMAT_H_
