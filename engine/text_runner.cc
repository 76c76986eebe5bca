#include "engine/text_runner.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "ballast/chat.h"
#include "ballast/error.h"
#include "kernels/parallel.h"
#include "text/chat/chat_prompt.h"

namespace ballast::engine {

namespace {

// Tokens per pass: half, so that the texts' memory is reused while it is in the processor's caches.
constexpr std::size_t kTokensAtOnce = model::Model::kPassTokens / 2;

/// Returns the room for texts that special tokens leave. Throws Error if they leave none.
std::size_t room_for_texts(std::size_t special, std::size_t most) {
  if (special >= most) throw Error("texts", std::to_string(most) + " tokens leave no room for a text");
  return most - special;
}

/// Texts that run in one batch.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::vector<TextRange> cut_batches(std::span<const EncodedText> texts) {
  std::vector<TextRange> batches;
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t count = texts[i].ids.size();
    if (batches.empty() || tokens + count > kTokensAtOnce) {
      batches.push_back({.begin = i, .end = i});
      tokens = 0;
    }
    batches.back().end = i + 1;
    tokens += count;
  }
  return batches;
}

/// Runs batches of texts one after the other and reuses their memory.
class BatchRunner {
 public:
  BatchRunner(const model::Model& model, const CacheOptions& cache, std::size_t longest)
      : model_(model), cache_(cache), longest_(longest) {}

  /// Calls read(first + i, rows) for each text i.
  void run(std::span<const EncodedText> texts, std::size_t first, const TextReader& read) {
    batch_.clear();
    while (states_.size() < texts.size()) states_.push_back(model_.make_state(cache_, longest_));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      states_[i].truncate(0);
      const model::TokenSpan tokens(texts[i].ids, {}, texts[i].types);
      batch_.push_back({.tokens = tokens, .state = &states_[i], .wanted = tokens.size()});
    }
    std::span<const float> rows = model_.normalized(model_.forward(batch_, workspace_), workspace_);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::size_t size = texts[i].ids.size() * model_.spec().hidden_size;
      read(first + i, rows.first(size));
      rows = rows.subspan(size);
    }
  }

 private:
  const model::Model& model_;
  CacheOptions cache_;
  std::size_t longest_;
  model::Workspace workspace_;
  std::vector<model::SequenceState> states_;
  std::vector<model::SequenceTokens> batch_;
};

/// Returns the chat of a query and a document. If it has more tokens than `most`, the end of the document is cut, and
/// the template's text after it is kept.
EncodedText encode_chat(const text::Tokenizer& tokenizer, const TokenScoreSpec& score, const TextPair& pair,
                        std::size_t most) {
  text::Conversation conversation;
  if (!score.template_arguments.empty()) {
    conversation.arguments = nlohmann::ordered_json::parse(score.template_arguments);
  }
  conversation.add_generation_prompt = conversation.arguments.value("add_generation_prompt", false);
  conversation.arguments.erase("add_generation_prompt");
  std::vector<ChatMessage> messages;
  if (!score.instruction.empty()) messages.push_back({.role = "system", .content = score.instruction});
  messages.push_back({.role = "query", .content = pair.first});
  messages.push_back({.role = "document", .content = pair.second});
  for (const ChatMessage& message : messages) conversation.messages.push_back(text::chat_message_json(message));
  const text::ChatPrompt prompt = text::apply_chat_template(tokenizer, conversation);
  EncodedText encoded{.ids = text::encode(tokenizer, prompt, most), .types = {}};
  encoded.cut = encoded.ids.size() > most;
  if (!encoded.cut) return encoded;
  const std::size_t end = prompt.from_user.empty() ? std::string::npos : prompt.from_user.back().end;
  if (end == std::string::npos) throw Error("chat template", "does not write the document, which is to be cut");
  const std::vector<int> after = tokenizer.encode(std::string_view(prompt.text).substr(end));
  encoded.ids.resize(room_for_texts(after.size(), most));
  encoded.ids.insert(encoded.ids.end(), after.begin(), after.end());
  return encoded;
}

}  // namespace

EncodedText encode_text(const text::Tokenizer& tokenizer, const std::string& text, std::size_t most) {
  const std::vector<int>& leading = tokenizer.leading_special_tokens();
  const std::vector<int>& suffix = tokenizer.suffix();
  const std::size_t room = room_for_texts(leading.size() + suffix.size(), most);
  EncodedText encoded{.ids = tokenizer.encode(text), .types = {}};
  std::vector<int>& ids = encoded.ids;
  encoded.cut = ids.size() > room;
  if (encoded.cut) ids.resize(room);
  ids.insert(ids.begin(), leading.begin(), leading.end());
  ids.insert(ids.end(), suffix.begin(), suffix.end());
  return encoded;
}

EncodedText encode_pair(const ModelSpec& spec, const text::Tokenizer& tokenizer, const TextPair& pair,
                        std::size_t most) {
  if (spec.classifier && spec.classifier->token_score) {
    return encode_chat(tokenizer, *spec.classifier->token_score, pair, most);
  }
  const std::vector<text::PairPart>& parts = tokenizer.pair_parts();
  const auto special = std::ranges::count(parts, text::PairPart::Kind::kToken, &text::PairPart::kind);
  const std::size_t room = room_for_texts(static_cast<std::size_t>(special), most);
  // Of much longer texts only the beginning is read.
  constexpr std::size_t kRead = 16;
  const std::size_t limit = most < text::Tokenizer::kNoLimit / kRead ? kRead * most : text::Tokenizer::kNoLimit;
  std::vector<int> first = tokenizer.encode(pair.first, {}, limit);
  std::vector<int> second = tokenizer.encode(pair.second, {}, limit);
  EncodedText encoded{.ids = {}, .types = {}};
  if (first.size() + second.size() > room) {
    std::vector<int>& shorter = first.size() <= second.size() ? first : second;
    std::vector<int>& longer = first.size() <= second.size() ? second : first;
    shorter.resize(std::min(shorter.size(), room / 2));
    longer.resize(room - shorter.size());
    encoded.cut = true;
  }
  for (const text::PairPart& part : parts) {
    const std::size_t before = encoded.ids.size();
    if (part.kind == text::PairPart::Kind::kToken) {
      encoded.ids.push_back(part.id);
    } else {
      const std::vector<int>& ids = part.kind == text::PairPart::Kind::kFirst ? first : second;
      encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
    }
    if (spec.token_types > 1) encoded.types.insert(encoded.types.end(), encoded.ids.size() - before, part.type);
  }
  return encoded;
}

std::vector<EncodedText> encode_texts(std::size_t count, const std::function<EncodedText(std::size_t)>& encode) {
  std::vector<EncodedText> encoded(count);
  kernels::TaskFailure failure;
  kernels::parallel_tasks(count, kernels::available_threads(), [&](std::size_t i, std::size_t) {
    failure.keep(i, [&] {
      encoded[i] = encode(i);
      if (encoded[i].ids.empty()) {
        throw Error("text " + std::to_string(i + 1), "has no tokens, so that there is nothing to compute from");
      }
    });
  });
  failure.rethrow();
  return encoded;
}

void run_texts(const model::Model& model, CacheOptions::Type cache_type, std::span<const EncodedText> texts,
               const char* stage, const Progress& progress, const TextReader& read) {
  std::size_t longest = 0;
  for (const EncodedText& text : texts) longest = std::max(longest, text.ids.size());
  const std::vector<TextRange> batches = cut_batches(texts);
  // One thread for each batch needs no synchronization and finds its data in its own caches.
  const std::size_t threads = batches.size() < 2 * kernels::available_threads() ? 1 : kernels::available_threads();
  std::vector<std::unique_ptr<BatchRunner>> runners(threads);
  std::atomic<std::size_t> done = 0;
  kernels::TaskFailure failure;
  kernels::parallel_tasks(batches.size(), threads, [&](std::size_t i, std::size_t thread) {
    if (failure.failed()) return;
    failure.keep(i, [&] {
      std::unique_ptr<BatchRunner>& runner = runners[thread];
      if (!runner) runner = std::make_unique<BatchRunner>(model, CacheOptions{.type = cache_type}, longest);
      const auto [begin, end] = batches[i];
      runner->run(texts.subspan(begin, end - begin), begin, read);
      done += end - begin;
      if (progress && thread == 0) progress(stage, done, texts.size());
    });
  });
  failure.rethrow();
  if (progress) progress(stage, texts.size(), texts.size());
}

}  // namespace ballast::engine
