// The endpoint that writes texts from source texts with beam search, many at once.
#include <algorithm>
#include <memory>
#include <utility>

#include "engine/translator.h"
#include "files/text.h"
#include "serve/api/json_text.h"
#include "serve/api/openai_format.h"
#include "serve/api/translate_format.h"
#include "serve/service/request_memory.h"
#include "serve/service/service.h"

namespace ballast::serve {
namespace {

/// Returns the bytes of the logits and scores of all beams that run at once, and of the texts.
std::size_t translate_bytes(const TranslateRequest& asked, std::size_t vocab_size) {
  const std::size_t beams = asked.options.beams * std::min(asked.options.texts_at_once, asked.texts.size());
  std::size_t bytes = beams * 2 * sizeof(float) * vocab_size;
  for (const std::string& text : asked.texts) bytes += kTextCopies * text.size();
  return bytes;
}

}  // namespace

void Service::translate(const Call& call) {
  const engine::LoadedModel& loaded = call.model->loaded;
  if (!loaded.model.spec().encoder) {
    throw ApiError(400, files::concat("the model ", call.model->name, " has no encoder that reads a source text"),
                   "model");
  }
  TranslateRequest asked = read_translate(call.fields, loaded.translate_defaults);
  asked.options.cache_type = call.model->cache_type;
  hold(*call.exchange,
       body_bytes(call.exchange->request().body, kTextCopies) + translate_bytes(asked, loaded.model.spec().vocab_size));
  // The steps of a search may take long, so no thread that others need runs them.
  const auto strand = std::make_shared<Strand>(translating_);
  const auto work = [exchange = call.exchange, model = call.model, asked = std::move(asked)] {
    try {
      const std::vector<Translation> written = engine::translate_texts(model->loaded, asked.texts, asked.options, {});
      exchange->respond({.body = json_text(translations_json(model->name, written))});
    } catch (const Error& error) {
      exchange->respond(ApiError(400, error.what()).response(error_form(exchange->request().path)));
    } catch (const std::exception& error) {
      exchange->respond(ApiError(500, error.what()).response(error_form(exchange->request().path)));
    }
  };
  strand->post(work);
}

}  // namespace ballast::serve
