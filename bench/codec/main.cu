// codec_bench: speed, correctness and safety of the GPU decoder. Prints one JSON line per result.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "hostile.h"
#include "table.h"

namespace {

constexpr char kUsage[] =
    "usage: codec_bench table [--nvcomp PATH] [--only PART] [--count N] [--quick] [--no-stages] [--no-lz4]\n"
    "       codec_bench generated|mutated [--subject zstd|lz4|blosc|mixed] [--seconds S] [--frames N] [--largest "
    "BYTES]\n"
    "                   [--seed K] [--checked SHARE] [--all-shapes] [--lanes L] [--ledger FILE] [--until FRAMES]\n"
    "       --threads T with any of them. A ledger keeps the totals of all runs; a run goes on where the last one "
    "was.\n";

bool parse_subject(const std::string& word, damacy::bench::Subject& subject) {
  using enum damacy::bench::Subject;
  using Value = std::pair<const char*, decltype(mixed)>;
  for (const auto& [name, value] :
       {Value{"mixed", mixed}, Value{"zstd", zstd}, Value{"lz4", lz4}, Value{"blosc", blosc}}) {
    if (word != name) continue;
    subject = value;
    return true;
  }
  return false;
}

struct Arguments {
  std::string mode, nvcomp;
  damacy::bench::TableOptions table;
  damacy::bench::HostileOptions hostile;
  std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
};

bool parse(int count, char** words, Arguments& out) {
  if (count < 2) return false;
  out.mode = words[1];
  for (int i = 2; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--quick")
      out.table.quick = true;
    else if (word == "--no-stages")
      out.table.stages = false;
    else if (word == "--no-lz4")
      out.table.lz4 = false;
    else if (word == "--all-shapes")
      out.hostile.all_shapes = true;
    else if (i + 1 == count)
      return false;
    else if (word == "--nvcomp")
      out.nvcomp = words[++i];
    else if (word == "--only")
      out.table.only = words[++i];
    else if (word == "--count")
      out.table.count = std::strtoull(words[++i], nullptr, 10);
    else if (word == "--threads")
      out.threads = std::strtoull(words[++i], nullptr, 10);
    else if (word == "--seconds")
      out.hostile.seconds = std::strtod(words[++i], nullptr);
    else if (word == "--frames")
      out.hostile.frames = std::strtoull(words[++i], nullptr, 10);
    else if (word == "--largest")
      out.hostile.largest = std::strtoull(words[++i], nullptr, 10);
    else if (word == "--seed")
      out.hostile.seed = std::strtoull(words[++i], nullptr, 10);
    else if (word == "--checked")
      out.hostile.checked_share = std::strtod(words[++i], nullptr);
    else if (word == "--until")
      out.hostile.until = std::strtoull(words[++i], nullptr, 10);
    else if (word == "--lanes")
      out.hostile.lanes = std::strtoull(words[++i], nullptr, 10);
    else if (word == "--ledger")
      out.hostile.ledger = words[++i];
    else if (word != "--subject" || !parse_subject(words[++i], out.hostile.subject))
      return false;
  }
  if (out.hostile.subject == damacy::bench::Subject::blosc && out.mode == "generated") return false;  // no contents
  return out.mode == "table" || out.mode == "generated" || out.mode == "mutated";
}

void print_device(std::size_t threads, const damacy::bench::Nvcomp& nvcomp) {
  damacy::bench::check(cudaFree(nullptr), "context");  // the decoder needs a current context
  cudaDeviceProp properties{};
  damacy::bench::check(cudaGetDeviceProperties(&properties, 0), "device");
  std::printf("{\"device\": \"%s\", \"multiprocessors\": %d, \"threads\": %zu, \"nvcomp\": \"%s\"}\n", properties.name,
              properties.multiProcessorCount, threads, nvcomp.state().c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  if (!parse(count, words, arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  damacy::bench::Nvcomp nvcomp(arguments.nvcomp);
  print_device(arguments.threads, nvcomp);
  if (arguments.mode == "table") {
    damacy::bench::Crew crew(arguments.threads);
    return damacy::bench::run_table(arguments.table, nvcomp, crew) ? 0 : 1;
  }
  arguments.hostile.mutate = arguments.mode == "mutated";
  if (arguments.hostile.frames == 0)  // a blosc chunk is many streams
    arguments.hostile.frames = arguments.hostile.subject == damacy::bench::Subject::blosc ? 25000 : 100000;
  arguments.hostile.threads = arguments.threads;
  return damacy::bench::run_hostile(arguments.hostile) ? 0 : 1;
}
