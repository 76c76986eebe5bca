// One model, four streams at once: each prints its tokens' log-probabilities, one is cancelled after five tokens.
#include <ballast/error.h>
#include <ballast/generate.h>
#include <ballast/model.h>

#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

struct Stream {
  std::vector<int> prompt;
  std::size_t most = 0;  // steps until it is cancelled; 0: never
  ballast::GenerateResult result{};
  std::string error{};
};

void run(const ballast::Model& model, Stream& stream) {
  try {
    ballast::Generator generator(model);
    ballast::GenerateOptions options;
    options.max_tokens = 24;
    options.logprobs = 2;
    std::size_t steps = 0;
    stream.result = generator.generate(stream.prompt, options,
                                       [&](const ballast::GenerateStep&) { return ++steps != stream.most; });
  } catch (const std::exception& error) {
    stream.error = error.what();
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const ballast::Model model{argv[1]};
  std::vector<Stream> streams = {{{5, 6, 7}}, {{8}, 5}, {{9, 10}}, {{5, 6, 7}}};
  std::vector<std::thread> threads;
  for (Stream& stream : streams) threads.emplace_back([&] { run(model, stream); });
  for (std::thread& thread : threads) thread.join();
  for (const Stream& stream : streams) {
    if (!stream.error.empty()) return std::fprintf(stderr, "%s\n", stream.error.c_str()), 1;
    for (const ballast::GeneratedToken& token : stream.result.tokens)
      std::printf("%d (%.4f) ", token.id, token.logprob);
    std::puts("");
  }
  // The same prompt gives the same tokens, with any other streams; the cancelled stream ended where it was cancelled.
  bool good = streams[1].result.finish == ballast::GenerateResult::Finish::kCancelled;
  good = good && streams[1].result.tokens.size() == streams[1].most;
  for (std::size_t i = 0; i < streams[0].result.tokens.size(); ++i) {
    good = good && streams[0].result.tokens[i].logprob == streams[3].result.tokens[i].logprob;
  }
  return good ? 0 : 1;
}
