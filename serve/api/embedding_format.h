// POST /v1/embeddings.
#ifndef BALLAST_SERVE_API_EMBEDDING_FORMAT_H_
#define BALLAST_SERVE_API_EMBEDDING_FORMAT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/api/completion_format.h"
#include "serve/api/generation_fields.h"
#include "serve/api/request_fields.h"
#include "serve/scheduler/request.h"

namespace ballast::serve {

struct EmbeddingRequest {
  std::vector<Prompt> inputs;
  std::optional<Pooling> pooling{};          ///< absent: the model's
  std::optional<bool> normalized{};          ///< absent: the model's
  std::size_t dimensions = 0;                ///< first values of a vector that are kept; 0: all
  std::optional<std::string> prompt_name{};  ///< as EmbedOptions::prompt_name
  bool base64 = false;                       ///< F32 in little-endian order, else a list of numbers
  PromptOptions prompt_options{};
  std::string salt{};
};

/// `size` is the length of a vector. Throws ApiError.
EmbeddingRequest read_embedding(const RequestFields& fields, std::size_t vocab_size, std::size_t size);

/// Reads a request with the fields of text-embeddings-inference (TEI). Throws ApiError.
EmbeddingRequest read_tei_embedding(const RequestFields& fields, std::size_t vocab_size, std::size_t size);

/// Returns the answer with the vectors of all inputs.
nlohmann::ordered_json embeddings_json(const std::string& model, std::span<const std::vector<float>> vectors,
                                       bool base64, const RequestUsage& usage);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_EMBEDDING_FORMAT_H_
