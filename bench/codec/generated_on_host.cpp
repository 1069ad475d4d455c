// generated_on_host: compares libzstd, the host decoder and the GPU decoder's host version on zstd frames that libzstd
// wrote: levels -5 to 22 (up to 12 above 4 KiB), one to three frames in a stream, whole and in part. Frames are
// numbered from 0; a ledger holds the number of finished ones. Prints a JSON object; exit code 1: a frame differs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "damacy/codec/zstd.h"
#include "ledger.h"
#include "support/reference_decoder.h"
#include "support/zstd_frames.h"

namespace {

using namespace damacy;
using gpu::testing::Bytes;
using gpu::testing::Random;

struct Decoders {
  ZstdDecoder host;
  gpu::ReferenceDecoder gpu;
};

bool equal_up_to(const Bytes& a, const Bytes& b, std::size_t end) {
  return std::memcmp(a.data(), b.data(), end) == 0;
}

// The name of the decoder that differs, or null.
const char* difference(std::uint64_t number, Decoders& decoders) {
  Random random(number * 0x9e3779b97f4a7c15ull + 17);
  const std::size_t most = random() % 64 == 0 ? 200000 : 4096;
  const Bytes content = gpu::testing::random_content(random, 1 + random() % most);
  const Bytes encoded = gpu::testing::random_zstd(random, content);
  const std::size_t size = content.size(), needed = 1 + random() % size;
  Bytes out(size);
  if (ZSTD_decompress(out.data(), size, encoded.data(), encoded.size()) != size || out != content) return "libzstd";
  std::fill(out.begin(), out.end(), std::byte{0xa5});
  if (!decoders.host.decode(encoded, out, size).ok() || out != content) return "host";
  std::fill(out.begin(), out.end(), std::byte{0xa5});
  if (!decoders.host.decode(encoded, out, needed).ok() || !equal_up_to(out, content, needed)) return "host, a part";
  std::fill(out.begin(), out.end(), std::byte{0xa5});
  if (!decoders.gpu.decode(encoded, GpuCodec::zstd, out).ok() || out != content) return "gpu";
  std::fill(out.begin(), out.end(), std::byte{0xa5});
  if (decoders.gpu.decode(encoded, GpuCodec::zstd, out, needed).ok() && !equal_up_to(out, content, needed))
    return "gpu, a part";  // refusing the frame is also correct: the host then decodes it
  return nullptr;
}

constexpr char kUsage[] =
    "usage: generated_on_host [--until NUMBER] [--seconds S] [--threads T] [--ledger FILE]\n"
    "Starts where the ledger's last run ended; ends at frame NUMBER (1000000) or after S seconds (3600).\n";
constexpr std::uint64_t kPortion = 500;  // frames that a thread takes at a time

struct Options {
  std::uint64_t until = 1000000;
  double seconds = 3600;
  std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::string ledger;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

unsigned long long number(std::uint64_t value) {
  return value;
}

// Gives out portions in order, so that the finished frames are all those below a number.
class Run {
 public:
  explicit Run(const Options& options)
      : options_(options), ledger_(options.ledger), first_(ledger_.of(kName).frames), next_(first_) {}

  bool go() {
    const double begin = now();
    while (next_ < options_.until && now() - begin < options_.seconds && differ_ == 0) {
      run_round();
      bench::Ledger::Entry& all = ledger_.of(kName);
      all.frames = all.checked = next_;
      all.findings += differ_;
      ++all.batches;
      ledger_.save();
    }
    std::printf(
        "{\"generated_on_host\": %llu, \"first\": %llu, \"seconds\": %.1f, \"threads\": %zu, \"differ\": %llu}\n",
        number(next_ - first_), number(first_), now() - begin, options_.threads, number(differ_));
    return differ_ == 0;
  }

 private:
  static constexpr char kName[] = "generated-zstd-host";

  // Runs two portions per thread; returns after all of them.
  void run_round() {
    const std::uint64_t begin = next_, end = std::min(options_.until, begin + 2 * kPortion * options_.threads);
    std::atomic<std::uint64_t> next = begin;
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < options_.threads; ++i)
        threads.emplace_back([&] {
          Decoders decoders;
          for (std::uint64_t at = next.fetch_add(kPortion); at < end; at = next.fetch_add(kPortion))
            for (std::uint64_t frame = at; frame < std::min(end, at + kPortion); ++frame) compare(frame, decoders);
        });
    }
    next_ = end;
  }

  void compare(std::uint64_t frame, Decoders& decoders) {
    const char* what = difference(frame, decoders);
    if (what == nullptr) return;
    ++differ_;
    std::printf("{\"frame\": %llu, \"differs\": \"%s\"}\n", number(frame), what);
  }

  const Options& options_;
  bench::Ledger ledger_;
  const std::uint64_t first_;
  std::uint64_t next_;
  std::atomic<std::uint64_t> differ_ = 0;
};

bool parse(int count, char** words, Options& options) {
  for (int i = 1; i < count; i += 2) {
    const std::string word = words[i];
    if (i + 1 == count) return false;
    const char* value = words[i + 1];
    if (word == "--until")
      options.until = std::strtoull(value, nullptr, 10);
    else if (word == "--seconds")
      options.seconds = std::strtod(value, nullptr);
    else if (word == "--threads")
      options.threads = std::max<std::size_t>(1, std::strtoull(value, nullptr, 10));
    else if (word == "--ledger")
      options.ledger = value;
    else
      return false;
  }
  return true;
}

}  // namespace

int main(int count, char** words) {
  Options options;
  if (!parse(count, words, options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  return Run(options).go() ? 0 : 1;
}
