#include "serve/service/text_answer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "files/text.h"
#include "files/utf8.h"
#include "serve/api/api_error.h"
#include "text/reply/reply_piece.h"

namespace ballast::serve {

/// Posts the engine's results to the answer's strand.
class TextAnswer::Listener : public RequestListener {
 public:
  Listener(std::shared_ptr<TextAnswer> answer, std::size_t prompt) : answer_(std::move(answer)), prompt_(prompt) {}

  void on_prompt_scored(std::vector<GeneratedToken>&& scores) override {
    post([scores = std::move(scores)](TextAnswer& answer, std::size_t prompt) mutable {
      answer.scored(prompt, std::move(scores));
    });
  }
  void on_token(std::size_t choice, std::vector<ReplyPart>&& parts, const GeneratedToken* token) override {
    post_or_fail(*answer_->strand_, [&] {
      std::optional<GeneratedToken> copy;
      if (token != nullptr) copy = *token;
      post([=, parts = std::move(parts)](TextAnswer& answer, std::size_t prompt) {
        answer.took(prompt, choice, parts, copy);
      });
    });
  }
  void on_choice_end(std::size_t choice, const ChoiceEnd& end) override {
    post_or_fail(*answer_->strand_, [&] {
      post([=](TextAnswer& answer, std::size_t prompt) { answer.choice_ended(prompt, choice, end); });
    });
  }
  void on_end(const RequestUsage& usage) override {
    post([=](TextAnswer& answer, std::size_t) { answer.ended(usage); });
  }
  void on_failure(Failure failure, const std::string& message) override {
    post_or_fail(*answer_->strand_,
                 [&] { post([=](TextAnswer& answer, std::size_t) { answer.failed(failure, message); }); });
  }

 private:
  template <class Tell>
  void post(Tell tell) noexcept {
    post_or_fail(*answer_->strand_, [&] {
      answer_->strand_->post(
          [answer = answer_, prompt = prompt_, tell = std::move(tell)]() mutable { tell(*answer, prompt); });
    });
  }

  std::shared_ptr<TextAnswer> answer_;
  std::size_t prompt_;
};

TextAnswer::TextAnswer(std::shared_ptr<HttpExchange> exchange, std::shared_ptr<Strand> strand, ModelLease model,
                       std::unique_ptr<AnswerFormat> format, AnswerShape shape)
    : exchange_(std::move(exchange)),
      strand_(std::move(strand)),
      model_(std::move(model)),
      format_(std::move(format)),
      shape_(std::move(shape)),
      choices_(shape_.prompts * shape_.choices),
      echoed_(shape_.prompts),
      prompt_scores_(shape_.prompts),
      open_(shape_.prompts) {}

void TextAnswer::echo(std::size_t prompt, const std::string& text, const std::vector<int>& ids) {
  for (std::size_t i = 0; i < shape_.choices; ++i) {
    CountedParts& reply = choice(prompt, i).reply;
    text::add_part(text, ReplyKind::kAnswer, reply.parts);
    reply.tokens.resize(reply.parts.size());
  }
  if (shape_.logprobs) echoed_[prompt] = ids;
}

std::shared_ptr<RequestListener> TextAnswer::listener(std::size_t prompt) {
  return std::make_shared<Listener>(shared_from_this(), prompt);
}

void TextAnswer::start(std::vector<std::shared_ptr<Ticket>> tickets) {
  end_with_strand(*strand_, exchange_, tickets);
  exchange_->on_gone([tickets] { cancel_all(tickets); });
  tickets_ = std::move(tickets);
  if (!shape_.stream) return;
  exchange_->begin_stream({.content_type = std::string(format_->stream_type()),
                           .body = {},
                           .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
                           .heartbeat = std::string(format_->heartbeat())});
  send(format_->begin_stream(choices_.size()));
}

/// A prompt's first token has no probability.
void TextAnswer::scored(std::size_t prompt, std::vector<GeneratedToken> scores) {
  const std::vector<int>& ids = echoed_[prompt];
  if (shape_.prompt_logprobs) prompt_scores_[prompt] = scores;
  if (ids.empty()) return;
  // prompt_logprobs may request more than logprobs.
  for (GeneratedToken& score : scores) score.top.resize(std::min(score.top.size(), shape_.logprobs.value_or(0)));
  scores.insert(scores.begin(), {.id = ids.front(), .logprob = std::numeric_limits<double>::quiet_NaN(), .top = {}});
  for (std::size_t i = 0; i < shape_.choices; ++i) {
    Choice& echoing = choice(prompt, i);
    echoing.decoder.emplace(*model_->loaded.own_tokenizer, text::StreamDecoder::Begin::kOfText,
                            shape_.show_special_tokens);
    for (const GeneratedToken& token : scores) add_token(echoing, token);
  }
}

void TextAnswer::add_token(Choice& choice, GeneratedToken token) {
  if (!choice.decoder) {
    choice.decoder.emplace(*model_->loaded.own_tokenizer, text::StreamDecoder::Begin::kWithinText,
                           shape_.show_special_tokens);
  }
  choice.text_offsets.push_back(choice.decoded);
  choice.decoded += files::count_code_points(choice.decoder->push(token.id));
  choice.tokens.push_back(std::move(token));
}

void TextAnswer::took(std::size_t prompt, std::size_t index, const std::vector<ReplyPart>& parts,
                      std::optional<GeneratedToken> token) {
  Choice& taking = choice(prompt, index);
  CountedParts& reply = taking.reply;
  for (const ReplyPart& part : parts) {
    taking.thinks = part.kind == ReplyKind::kThinking;
    if (!taking.thinks || shape_.shows_thinking) text::add_part(part.text, part.kind, reply.parts, part.call);
  }
  reply.tokens.resize(reply.parts.size());
  if (token && taking.thinks) ++usage_.thinking_tokens;
  if (token && shape_.logprobs) {
    add_token(taking, *std::move(token));
    if (!reply.tokens.empty()) ++reply.tokens.back();
  }
  if (shape_.stream && !reply.parts.empty()) send_piece(prompt * shape_.choices + index);
}

void TextAnswer::choice_ended(std::size_t prompt, std::size_t index, const ChoiceEnd& end) {
  choice(prompt, index).end = end;
  if (shape_.stream) send_piece(prompt * shape_.choices + index);
}

void TextAnswer::ended(const RequestUsage& usage) {
  usage_.prompt_tokens += usage.prompt_tokens;
  usage_.cached_tokens += usage.cached_tokens;
  usage_.generated_tokens += usage.generated_tokens;
  if (--open_ > 0 || over_) return;
  over_ = true;
  if (!shape_.stream) return send_body();
  send(format_->end_stream(usage_));
  exchange_->end();
}

void TextAnswer::failed(Failure failure, const std::string& message) {
  if (over_) return;
  over_ = true;
  cancel_all(tickets_);
  if (failure == Failure::kNoToken) {
    const std::string& field = shape_.constraint_field;
    return send_failure(*exchange_,
                        ApiError(400, field.empty() ? message : files::concat(field, ": ", message), field));
  }
  send_failure(*exchange_, ApiError(failure == Failure::kError ? 500 : 503, message));
}

AnswerPiece TextAnswer::piece(std::size_t index) const {
  const Choice& choice = choices_[index];
  return {.choice = index,
          .parts = choice.reply.parts,
          .tokens = choice.tokens,
          .part_tokens = choice.reply.tokens,
          .text_offsets = choice.text_offsets,
          .prompt_scores = prompt_scores_[index / shape_.choices],
          .end = choice.end};
}

/// Sends what a choice has since the last piece.
void TextAnswer::send_piece(std::size_t index) {
  if (over_) return;
  send(format_->write_piece(piece(index)));
  Choice& sent = choices_[index];
  sent.reply = {};
  sent.tokens.clear();
  sent.text_offsets.clear();
}

void TextAnswer::send(std::string text) {
  if (!text.empty()) exchange_->write(std::move(text));
}

void TextAnswer::send_body() {
  std::string body;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice& written = choices_[i];
    written.reply = with_whole_calls(std::move(written.reply));
    format_->add_choice(piece(i), body);
    written.reply = {};
    written.tokens = {};
    written.text_offsets = {};
  }
  format_->end_body(usage_, body);
  exchange_->respond({.body = std::move(body)});
}

}  // namespace ballast::serve
