#include "serve/api/embedding_format.h"

#include <openssl/evp.h>

#include <bit>
#include <string>
#include <utility>

#include "files/text.h"
#include "serve/api/field_table.h"

namespace ballast::serve {
namespace {

static_assert(std::endian::native == std::endian::little);

std::string in_base64(std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // with the terminating zero that OpenSSL writes
  const int length =
      ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

Pooling pooling_of(const files::JsonReader& value) {
  const std::string& name = value.string();
  if (name == "mean") return Pooling::kMean;
  if (name == "cls") return Pooling::kFirst;
  if (name == "last") return Pooling::kLast;
  value.fail(files::concat(files::in_quotes(name), " is unknown: mean, cls and last are known"));
}

/// Reads whether vectors are scaled to length 1; absent: as the model's files say.
std::optional<bool> read_normalized(const RequestFields& fields) {
  const bool normalized = fields.flag("normalize", true) && fields.flag("use_activation", true);
  return normalized ? std::nullopt : std::optional(false);
}

}  // namespace

EmbeddingRequest read_embedding(const RequestFields& fields, std::size_t vocab_size, std::size_t size) {
  check_fields(fields, kEmbeddings);
  EmbeddingRequest request = {.inputs = read_prompts(fields, "input", vocab_size)};
  request.pooling = fields.read("pooling", pooling_of);
  request.normalized = read_normalized(fields);
  fields.read("encoding_format", [&](const files::JsonReader& value) {
    const std::string& name = value.string();
    if (name != "float" && name != "base64") value.fail("must be \"float\" or \"base64\"");
    request.base64 = name == "base64";
    return true;
  });
  fields.read("dimensions", [&](const files::JsonReader& value) {
    request.dimensions = static_cast<std::size_t>(whole_number(value, 1, static_cast<std::int64_t>(size)));
    return true;
  });
  // If a text is too long, its beginning is used for the vector.
  request.prompt_options = read_prompt_options(fields, {.keep_end = false, .makes_vector = true});
  request.salt = fields.text("cache_salt").value_or("");
  return request;
}

EmbeddingRequest read_tei_embedding(const RequestFields& fields, std::size_t vocab_size, std::size_t size) {
  EmbeddingRequest request = {.inputs = read_prompts(fields, "inputs", vocab_size)};
  request.normalized = read_normalized(fields);
  request.prompt_name = fields.text("prompt_name");
  if (const auto kept = fields.integer("dimensions", 1, static_cast<std::int64_t>(size))) {
    request.dimensions = static_cast<std::size_t>(*kept);
  }
  request.prompt_options = {.keep_end = false, .makes_vector = true};
  if (fields.flag("truncate", true)) request.prompt_options.truncate = -1;
  return request;
}

nlohmann::ordered_json embeddings_json(const std::string& model, std::span<const std::vector<float>> vectors,
                                       bool base64, const RequestUsage& usage) {
  nlohmann::ordered_json data = nlohmann::ordered_json::array();
  for (const std::vector<float>& vector : vectors) {
    nlohmann::ordered_json json = {{"object", "embedding"}, {"index", data.size()}};
    if (base64) {
      json["embedding"] = in_base64(vector);
    } else {
      json["embedding"] = vector;
    }
    data.push_back(std::move(json));
  }
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", model},
          {"usage", {{"prompt_tokens", usage.prompt_tokens}, {"total_tokens", usage.prompt_tokens}}}};
}

}  // namespace ballast::serve
