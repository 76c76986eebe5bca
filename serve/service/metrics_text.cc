#include "serve/service/metrics_text.h"

#include <sstream>
#include <string_view>

namespace ballast::serve {
namespace {

class MetricsWriter {
 public:
  template <class Number>
  void write(std::string_view name, std::string_view type, std::string_view help, Number value) {
    head(name, type, help);
    out_ << "ballast_" << name << ' ' << value << '\n';
  }

  void write(std::string_view name, std::string_view label, std::string_view help,
             const std::map<std::string, std::uint64_t>& values, std::string_view type = "counter") {
    head(name, type, help);
    for (const auto& [value_of_label, value] : values) {
      out_ << "ballast_" << name << '{' << label << "=\"" << value_of_label << "\"} " << value << '\n';
    }
  }

  void write(std::string_view name, std::string_view help, const Histogram& histogram) {
    head(name, "histogram", help);
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
      count += histogram.counts()[i];
      out_ << "ballast_" << name << "_bucket{le=\"";
      if (i < histogram.bounds().size()) {
        out_ << histogram.bounds()[i];
      } else {
        out_ << "+Inf";
      }
      out_ << "\"} " << count << '\n';
    }
    out_ << "ballast_" << name << "_sum " << histogram.sum() << '\n'
         << "ballast_" << name << "_count " << count << '\n';
  }

  std::string take() { return std::move(out_).str(); }

 private:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    out_ << "# HELP ballast_" << name << ' ' << help << "\n# TYPE ballast_" << name << ' ' << type << '\n';
  }

  std::ostringstream out_;
};

}  // namespace

std::string metrics_text(const Figures& figures, const RequestFigures& requests) {
  MetricsWriter writer;
  const auto part = [](std::uint64_t value, std::uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(value) / static_cast<double>(whole);
  };
  const std::uint64_t page = figures.page_bytes == 0 ? 1 : figures.page_bytes;
  const std::uint64_t used = figures.cache_bytes + figures.mixer_bytes;
  const std::uint64_t free = figures.cache_budget > used ? figures.cache_budget - used : 0;
  writer.write("num_requests_running", "gauge", "Requests that the engine works on.", figures.running);
  writer.write("num_requests_waiting", "gauge", "Requests that wait to be worked on.", figures.waiting);
  writer.write("kv_cache_usage_perc", "gauge", "Part of the memory for what texts keep that is in use, 1 for all.",
               part(used, figures.cache_budget));
  writer.write("kv_cache_pages", "state", "Pages of 128 tokens: of one text, of several, and not in use.",
               {{"used", (figures.cache_bytes - figures.shared_bytes) / page},
                {"shared", figures.shared_bytes / page},
                {"free", free / page}},
               "gauge");
  writer.write("mixer_state_bytes", "gauge", "Memory of what recurrent layers keep of texts.", figures.mixer_bytes);
  writer.write("prefix_cache_texts", "gauge", "Texts whose keys and values are kept for those that begin alike.",
               figures.cached_texts);
  writer.write("prefix_cache_queries_total", "counter", "Tokens of prompts that were looked for in the cache.",
               figures.prefix_queries);
  writer.write("prefix_cache_hits_total", "counter", "Tokens of prompts that were found in the cache.",
               figures.prefix_hits);
  writer.write("num_preemptions_total", "counter", "Requests that gave up their pages and were begun anew.",
               figures.preemptions);
  writer.write("prompt_tokens_total", "counter", "Tokens of prompts that were read.", figures.prompt_tokens);
  writer.write("generation_tokens_total", "counter", "Tokens that were generated.", figures.generated_tokens);
  if (figures.experts_on_disk) {
    writer.write("expert_cache_queries_total", "counter", "Experts that a layer's tokens were sent to.",
                 figures.experts_used);
    writer.write("expert_cache_hits_total", "counter", "Of these, those that were in memory.", figures.experts_found);
    writer.write("expert_cache_bytes", "gauge", "Memory that experts take.", figures.expert_bytes);
  }
  if (figures.fastest_tokens > 0) {
    writer.write("generation_limit_tokens_per_second", "gauge",
                 "Tokens that one text can have at most, by how fast memory is read.", figures.fastest_tokens);
  }
  writer.write("request_success_total", "finished_reason", "Texts that ended, by reason.", figures.finished);
  writer.write("request_rejections_total", "reason", "Requests that were not accepted, by reason.",
               requests.rejections);
  writer.write("request_memory_bytes", "gauge", "Memory that requests hold beside the texts' keys and values.",
               requests.memory_bytes);
  writer.write("request_memory_refusals_total", "counter", "Requests that were refused since the others held too much.",
               requests.memory_refusals);
  writer.write("log_lines_dropped_total", "counter", "Lines of the log that nobody read in time.",
               requests.dropped_log_lines);
  writer.write("time_to_first_token_seconds", "From arrival to the first token.", figures.first_token);
  writer.write("inter_token_latency_seconds", "Between two tokens of a text.", figures.between_tokens);
  writer.write("request_queue_time_seconds", "From arrival to the engine.", figures.queued);
  writer.write("e2e_request_latency_seconds", "From arrival to the end.", figures.end_to_end);
  return writer.take();
}

}  // namespace ballast::serve
