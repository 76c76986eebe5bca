// Requests to /translate: texts that are written from source texts by a model with an encoder and a decoder.
#ifndef BALLAST_SERVE_API_TRANSLATE_FORMAT_H_
#define BALLAST_SERVE_API_TRANSLATE_FORMAT_H_

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "ballast/translate.h"
#include "serve/api/request_fields.h"

namespace ballast::serve {

struct TranslateRequest {
  std::vector<std::string> texts;
  TranslateOptions options{};
};

/// Reads a request; absent fields have the model's values. Throws ApiError.
TranslateRequest read_translate(const RequestFields& fields, const TranslateOptions& defaults);

nlohmann::ordered_json translations_json(const std::string& model, std::span<const Translation> translations);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_TRANSLATE_FORMAT_H_
