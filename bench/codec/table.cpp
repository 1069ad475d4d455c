#include "table.h"

#include <lz4.h>
#include <zstd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

#include "batch.h"
#include "stage_times.h"
#include "volume.h"

namespace damacy::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Set {
  std::string name;  // content, codec and KiB per frame
  GpuCodec codec = GpuCodec::zstd;
  std::vector<Bytes> chunks, encoded;
  std::size_t frame_bytes = 0, stored = 0;
};

Bytes compress(const Bytes& chunk, GpuCodec codec) {
  Bytes out(codec == GpuCodec::lz4 ? static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(chunk.size())))
                                   : ZSTD_compressBound(chunk.size()));
  if (codec == GpuCodec::lz4)
    out.resize(static_cast<std::size_t>(
        LZ4_compress_default(reinterpret_cast<const char*>(chunk.data()), reinterpret_cast<char*>(out.data()),
                             static_cast<int>(chunk.size()), static_cast<int>(out.size()))));
  else
    out.resize(ZSTD_compress(out.data(), out.size(), chunk.data(), chunk.size(), 3));
  return out;
}

bool library_decodes(const Bytes& encoded, GpuCodec codec, Bytes& out) {
  if (codec == GpuCodec::lz4)
    return LZ4_decompress_safe(reinterpret_cast<const char*>(encoded.data()), reinterpret_cast<char*>(out.data()),
                               static_cast<int>(encoded.size()),
                               static_cast<int>(out.size())) == static_cast<int>(out.size());
  return ZSTD_decompress(out.data(), out.size(), encoded.data(), encoded.size()) == out.size();
}

Set make_set(const Volume& volume, const std::string& content, const ChunkShape& shape, bool shuffle, GpuCodec codec,
             Crew& crew) {
  Set set;
  set.codec = codec;
  set.frame_bytes = shape.bytes();
  set.name = std::string(codec == GpuCodec::lz4 ? "lz4/" : "zstd/") + content + (shuffle ? "-shuffled/" : "/") +
             std::to_string(shape.bytes() >> 10);
  set.chunks = cut(volume, shape, shuffle, crew);
  set.encoded.resize(set.chunks.size());
  crew.each(set.chunks.size(), [&](std::size_t i, std::size_t) { set.encoded[i] = compress(set.chunks[i], codec); });
  for (const Bytes& encoded : set.encoded) set.stored += encoded.size();
  return set;
}

// Decoded GB/s of the library on all cores; -1 if the decoded chunks differ.
double library_rate(const Set& set, Crew& crew) {
  std::vector<Bytes> out(crew.size(), Bytes(set.frame_bytes));
  std::atomic<bool> same = true;
  crew.each(set.encoded.size(), [&](std::size_t i, std::size_t worker) {
    if (!library_decodes(set.encoded[i], set.codec, out[worker]) || out[worker] != set.chunks[i]) same = false;
  });
  if (!same) return -1;
  const std::size_t count = std::max<std::size_t>(set.encoded.size(), (512u << 20) / set.frame_bytes);
  const double begin = now();
  crew.each(count, [&](std::size_t i, std::size_t worker) {
    library_decodes(set.encoded[i % set.encoded.size()], set.codec, out[worker]);
  });
  return static_cast<double>(count * set.frame_bytes) / (now() - begin) / 1e9;
}

// Times from the first scanned byte to the last decoded one, including descriptors and their upload.
double time_with_scan(Batch& batch) {
  double best = 1e9;
  for (int i = 0; i < 4; ++i) {
    const double begin = now();
    batch.scan();
    batch.upload_image();
    batch.decode();
    batch.wait();
    best = std::min(best, now() - begin);
  }
  return best;
}

std::string describe_stages(const Batch& batch) {
  std::string text;
  for (const auto& [name, ms] : stage_times(batch)) {
    char item[96];
    std::snprintf(item, sizeof item, "%s\"%s\": %.3f", text.empty() ? "" : ", ", name.c_str(), ms);
    text += item;
  }
  return text;
}

struct Row {
  const Set& set;
  std::size_t count;
  double library = 0;
};

bool run_row(const Row& row, const TableOptions& options, Nvcomp& nvcomp, Crew& crew) {
  const Set& set = row.set;
  std::vector<Item> items(row.count);
  std::vector<const Bytes*> expected(row.count);
  const std::size_t unique = set.chunks.size();
  for (std::size_t i = 0; i < row.count; ++i) {
    const std::size_t from = row.count <= unique ? i * (unique / row.count) : i % unique;
    items[i] = {set.encoded[from], set.frame_bytes, set.codec};
    expected[i] = &set.chunks[from];
  }
  Batch batch(0, crew);
  batch.load(std::move(items));
  batch.scan();
  const double scan_seconds = batch.scan();
  batch.upload_image();
  batch.poison();
  const double gigabytes = static_cast<double>(batch.output_bytes()) / 1e9;
  const double ms = timed(batch.stream().get(), gigabytes > 1 ? 3 : 5, [&] { batch.decode(); });
  batch.poison();
  batch.decode();
  batch.wait();
  batch.fetch_status();
  const std::size_t wrong = batch.count_wrong(expected), accepted = batch.accepted();
  const double whole = time_with_scan(batch);
  const std::string stages = options.stages ? describe_stages(batch) : "";
  double nvcomp_ms = 0;
  std::size_t nvcomp_wrong = 0;
  if (nvcomp.usable() &&
      nvcomp.prepare(batch.frames(), batch.buffers().source, batch.buffers().destination, batch.stream())) {
    batch.poison();
    nvcomp_ms = timed(batch.stream().get(), gigabytes > 1 ? 2 : 3, [&] { nvcomp.decode(batch.stream()); });
    nvcomp_wrong = batch.count_wrong(expected);
  }
  const bool good = wrong == 0 && accepted == row.count;
  std::printf(
      "{\"row\": \"%s\", \"frames\": %zu, \"good\": %s, \"gb_s\": %.1f, \"ms\": %.3f, \"with_scan_gb_s\": %.1f, "
      "\"scan_us\": %.0f, \"nvcomp_gb_s\": %.1f, \"nvcomp_wrong\": %zu, \"library_gb_s\": %.1f, \"ratio\": %.3f, "
      "\"scratch_per_byte\": %.3f, \"shapes\": \"%s\", \"accepted\": %zu, \"wrong\": %zu, \"stages\": {%s}}\n",
      set.name.c_str(), row.count, good ? "true" : "false", gigabytes / ms * 1e3, ms, gigabytes / whole,
      scan_seconds * 1e6, nvcomp_ms == 0 ? 0.0 : gigabytes / nvcomp_ms * 1e3, nvcomp_wrong, row.library,
      static_cast<double>(set.frame_bytes * unique) / static_cast<double>(set.stored),
      static_cast<double>(scratch_bytes(batch.shape())) / static_cast<double>(batch.output_bytes()),
      launch_shapes(batch.shape()).c_str(), accepted, wrong, stages.c_str());
  std::fflush(stdout);
  return good;
}

std::vector<std::size_t> counts_of(std::size_t frame_bytes, const TableOptions& options) {
  const bool quick = options.quick;
  if (options.count != 0) return {options.count};
  if (frame_bytes >= (4u << 20))
    return quick ? std::vector<std::size_t>{256} : std::vector<std::size_t>{16, 64, 256, 512};
  if (frame_bytes == (64u << 10))
    return quick ? std::vector<std::size_t>{4096} : std::vector<std::size_t>{64, 512, 4096, 16384};
  return quick ? std::vector<std::size_t>{512, 8192}
               : std::vector<std::size_t>{64, 256, 512, 1024, 2048, 4096, 8192, 16384};
}

}  // namespace

bool run_table(const TableOptions& options, Nvcomp& nvcomp, Crew& crew) {
  bool good = true;
  for (const Content content : {Content::e50, Content::micro}) {
    const std::string name = content == Content::e50 ? "e50" : "micro";
    const Volume volume = make_volume(content, crew);
    for (const GpuCodec codec : {GpuCodec::zstd, GpuCodec::lz4}) {
      for (const bool shuffle : {false, true}) {
        for (const ChunkShape shape : {ChunkShape{16, 32, 64}, ChunkShape{32, 64, 64}, ChunkShape{128, 128, 128}}) {
          const bool is_lz4 = codec == GpuCodec::lz4;
          if ((shuffle && content == Content::e50) || (is_lz4 && (!options.lz4 || content == Content::e50))) continue;
          if (is_lz4 && shape.bytes() != (256u << 10)) continue;
          const std::string row_name = std::string(is_lz4 ? "lz4/" : "zstd/") + name + (shuffle ? "-shuffled/" : "/") +
                                       std::to_string(shape.bytes() >> 10);
          if (row_name.find(options.only) == std::string::npos) continue;
          const Set set = make_set(volume, name, shape, shuffle, codec, crew);
          const double library = library_rate(set, crew);
          good = good && library >= 0;
          for (const std::size_t count : counts_of(shape.bytes(), options))
            good = run_row({set, count, library}, options, nvcomp, crew) && good;
        }
      }
    }
  }
  return good;
}

}  // namespace damacy::bench
