#include "speed.h"

#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "support/random_placements.h"

namespace damacy::bench {
namespace {

using Shuffle = ChunkLayout::Shuffle;
using copy_cuda::testing::Bytes;

struct Extents {
  std::int64_t z, y, x;
  std::int64_t count() const { return z * y * x; }
};

struct Case {
  const char* name;
  CopyOp op;
  Shuffle shuffle = Shuffle::none;
  std::uint32_t block_bytes = 0;
  Extents array{512, 512, 512}, chunk{32, 64, 64}, crop{128, 128, 128};
  int arrays = 16, crops = 128;
  bool transposed = false;  // chunks in F order
  bool fill = false;
};

struct Buffers {
  DeviceBuffer source{std::size_t{6} << 30}, destination{std::size_t{2} << 30}, ahead{std::size_t{8} << 30};
};

// Random crops of random arrays, cut at chunk borders; a chunk of several crops is stored once.
class Wave {
 public:
  explicit Wave(const Case& c) : case_(c), draw_(7) {
    for (int crop = 0; crop < c.crops; ++crop) add_crop(crop);
  }

  const std::vector<Placement>& placements() const { return placements_; }  // src and dst count from 0
  std::size_t source_bytes() const { return chunks_.size() * chunk_pitch(); }
  std::size_t crop_bytes() const { return static_cast<std::size_t>(case_.crop.count()) * size_of(case_.op.to); }
  std::size_t destination_bytes() const { return crop_bytes() * static_cast<std::size_t>(case_.crops); }
  double elements() const { return static_cast<double>(case_.crop.count()) * case_.crops; }

 private:
  std::size_t chunk_pitch() const {
    return (static_cast<std::size_t>(case_.chunk.count()) * size_of(case_.op.from) + 4095) / 4096 * 4096;
  }

  void add_crop(int crop) {
    const std::int64_t array = draw_.from(0, case_.arrays - 1);
    const Extents at{draw_.from(0, case_.array.z - case_.crop.z), draw_.from(0, case_.array.y - case_.crop.y),
                     draw_.from(0, case_.array.x - case_.crop.x)};
    const auto first = [](std::int64_t begin, std::int64_t chunk) { return begin / chunk * chunk; };
    for (std::int64_t z = first(at.z, case_.chunk.z); z < at.z + case_.crop.z; z += case_.chunk.z)
      for (std::int64_t y = first(at.y, case_.chunk.y); y < at.y + case_.crop.y; y += case_.chunk.y)
        for (std::int64_t x = first(at.x, case_.chunk.x); x < at.x + case_.crop.x; x += case_.chunk.x)
          add_chunk(crop, array, {z, y, x}, at);
  }

  void add_chunk(int crop, std::int64_t array, const Extents& chunk_at, const Extents& crop_at) {
    const auto id = std::tuple(array, chunk_at.z, chunk_at.y, chunk_at.x);
    const std::size_t number = chunks_.try_emplace(id, chunks_.size()).first->second;
    const auto from = static_cast<std::int64_t>(size_of(case_.op.from));
    const auto to = static_cast<std::int64_t>(size_of(case_.op.to));
    const Extents& c = case_.chunk;
    const Extents src =
        case_.transposed ? Extents{from, from * c.z, from * c.z * c.y} : Extents{from * c.y * c.x, from * c.x, from};
    const Extents dst{to * case_.crop.y * case_.crop.x, to * case_.crop.x, to};
    BlockCopy copy;
    copy.op = case_.op;
    copy.rank = 3;
    const auto axis = [&](int i, std::int64_t Extents::* along) {
      const std::int64_t begin = std::max(chunk_at.*along, crop_at.*along);
      const std::int64_t end = std::min(chunk_at.*along + c.*along, crop_at.*along + case_.crop.*along);
      copy.axes[static_cast<std::size_t>(i)] = {end - begin, case_.fill ? 0 : src.*along, dst.*along};
      if (!case_.fill) copy.src_offset += (begin - chunk_at.*along) * src.*along;
      copy.dst_offset += (begin - crop_at.*along) * dst.*along;
    };
    axis(0, &Extents::z);
    axis(1, &Extents::y);
    axis(2, &Extents::x);
    normalise(copy);
    ChunkLayout layout;
    layout.shuffle = case_.shuffle;
    layout.typesize = static_cast<std::uint8_t>(from);
    layout.block_bytes = case_.block_bytes;
    layout.chunk_bytes = static_cast<std::uint64_t>(c.count() * from);
    PlacementList one;
    one.add(copy, number * chunk_pitch(), static_cast<std::size_t>(crop) * crop_bytes(), layout);
    placements_.insert(placements_.end(), one.placements().begin(), one.placements().end());
  }

  const Case& case_;
  copy_cuda::testing::Draw draw_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, std::size_t> chunks_;
  std::vector<Placement> placements_;
};

// Whether crop `number` equals the host copier's result for the same source.
bool crop_is_right(const Wave& wave, std::size_t number, const DeviceBuffer& source, const DeviceBuffer& destination) {
  Bytes expected(wave.crop_bytes()), got(wave.crop_bytes()), chunk;
  destination.read(got, number * wave.crop_bytes());
  for (Placement placement : wave.placements()) {
    if (placement.dst / wave.crop_bytes() != number) continue;
    chunk.resize(placement.layout.chunk_bytes);
    source.read(chunk, placement.src);
    placement.src = reinterpret_cast<std::uint64_t>(chunk.data());
    placement.dst = reinterpret_cast<std::uint64_t>(expected.data()) + placement.dst % wave.crop_bytes();
    copy_cuda::testing::place_on_host(placement);
  }
  return got == expected;
}

double host_ms(Runner& runner, const PlacementList& list) {
  Bytes image(runner.copier().image_bytes(list));
  const auto begin = std::chrono::steady_clock::now();
  runner.copier().write_image(list, image);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

bool time_case(Runner& runner, const Case& c, const Buffers& buffers) {
  const auto& [source, destination, ahead] = buffers;
  const Wave wave(c);
  if (wave.source_bytes() > source.bytes().size() || wave.destination_bytes() > destination.bytes().size()) {
    std::printf("{\"case\": \"%s\", \"skipped\": \"too large\"}\n", c.name);
    return false;
  }
  PlacementList list;
  for (Placement placement : wave.placements()) {
    placement.src += source.address();
    placement.dst += destination.address();
    list.add(placement);
  }
  destination.fill(0xee);
  const double ms = runner.median_ms(list, 7, buffers.ahead);
  bool right = true;
  for (const std::size_t crop : {std::size_t{0}, static_cast<std::size_t>(c.crops) - 1})
    right = right && crop_is_right(wave, crop, source, destination);
  const double read = c.fill ? 0 : static_cast<double>(size_of(c.op.from));
  const double bytes = wave.elements() * (read + static_cast<double>(size_of(c.op.to)));
  std::printf(
      "{\"case\": \"%s\", \"placements\": %zu, \"ms\": %.4f, \"TB_per_s\": %.3f, \"MB\": %.0f, \"image_ms\": %.2f, "
      "\"image_KB\": %zu, \"right\": %s}\n",
      c.name, wave.placements().size(), ms, bytes / ms / 1e9, bytes / 1e6, host_ms(runner, list),
      runner.copier().image_bytes(list) / 1000, right ? "true" : "false");
  std::fflush(stdout);
  return right;
}

void time_memcpy(Runner& runner, const Buffers& buffers, std::size_t bytes) {
  const auto& [source, destination, ahead] = buffers;
  const double ms = runner.median_ms(
      [&] {
        check(cudaMemcpyAsync(destination.bytes().data(), source.bytes().data(), bytes, cudaMemcpyDeviceToDevice,
                              runner.handle()),
              "copy");
      },
      9, ahead);
  std::printf("{\"case\": \"device copy\", \"MB\": %.0f, \"ms\": %.4f, \"TB_per_s\": %.3f}\n",
              2e-6 * static_cast<double>(bytes), ms, 2e-9 * static_cast<double>(bytes) / ms);
}

std::vector<Case> cases() {
  constexpr CopyOp kF32{Dtype::u16, Dtype::f32, false}, kBf16{Dtype::u16, Dtype::bf16, false};
  constexpr Extents kCoarse{64, 2048, 2048}, kCoarseChunk{64, 512, 512}, kSlice{1, 256, 256};
  constexpr Extents kClimate{64, 721, 1440}, kClimateChunk{1, 721, 1440};
  const auto slices = [&](Case c, const Extents& array, const Extents& chunk, int arrays) {
    c.array = array;
    c.chunk = chunk;
    c.crop = kSlice;
    c.arrays = arrays;
    c.crops = 4096;
    return c;
  };
  std::vector<Case> all{
      {"u16 f32", kF32},
      {"u16 bf16", kBf16},
      {"u16 f16", {Dtype::u16, Dtype::f16, false}},
      {"u16 swapped f32", {Dtype::u16, Dtype::f32, true}},
      {"u16 u16", {Dtype::u16, Dtype::u16, false}},
      {"u8 f32", {Dtype::u8, Dtype::f32, false}},
      {"u8 u8", {Dtype::u8, Dtype::u8, false}},
      {"f32 f32", {Dtype::f32, Dtype::f32, false}},
      {"f32 bf16", {Dtype::f32, Dtype::bf16, false}},
      {"f64 f32", {Dtype::f64, Dtype::f32, false}},
      {"u16 f32 shuffled 256K", kF32, Shuffle::bytes, 256 << 10},
      {"u16 f32 shuffled 128K", kF32, Shuffle::bytes, 128 << 10},
      {"u16 bf16 shuffled 256K", kBf16, Shuffle::bytes, 256 << 10},
      {"f32 f32 shuffled 256K", {Dtype::f32, Dtype::f32, false}, Shuffle::bytes, 256 << 10},
      {"u16 f32 bit-shuffled 256K", kF32, Shuffle::bits, 256 << 10},
      {"u16 bf16 bit-shuffled 256K", kBf16, Shuffle::bits, 256 << 10},
      slices({"u16 f32 slices shuffled 128K", kF32, Shuffle::bytes, 128 << 10}, kCoarse, kCoarseChunk, 8),
      slices({"u16 f32 slices", kF32}, kCoarse, kCoarseChunk, 8),
      slices({"f32 f32 slices", {Dtype::f32, Dtype::f32, false}}, kClimate, kClimateChunk, 8),
  };
  Case fill{"u16 f32 fill", kF32};
  fill.fill = true;
  Case transposed{"u16 f32 transposed", kF32};
  transposed.transposed = true;
  Case shuffled_transposed{"u16 f32 transposed shuffled", kF32, Shuffle::bytes, 256 << 10};
  shuffled_transposed.transposed = true;
  all.insert(all.end(),
             {fill, transposed, shuffled_transposed, {"i32 u8 by elements", {Dtype::i32, Dtype::u8, false}}});
  return all;
}

// All values differ, and no float is NaN.
void fill_source(const DeviceBuffer& source) {
  constexpr std::size_t kPiece = 64 << 20;
  Bytes piece(kPiece);
  std::mt19937_64 engine(3);
  for (std::size_t i = 0; i < kPiece; i += 8) {
    const std::uint64_t value = engine() & 0x3fff3fff3fff3fffu;
    std::memcpy(piece.data() + i, &value, 8);
  }
  for (std::size_t at = 0; at < source.bytes().size(); at += kPiece - 4096)
    source.write(std::span(piece).first(std::min(kPiece, source.bytes().size() - at)), at);
}

}  // namespace

bool time_all(Runner& runner, const std::vector<std::string>& wanted) {
  const Buffers buffers;
  fill_source(buffers.source);
  time_memcpy(runner, buffers, std::size_t{2} << 30);
  time_memcpy(runner, buffers, std::size_t{1} << 30);
  bool right = true;
  for (const Case& c : cases())
    if (wanted.empty() || std::ranges::find(wanted, c.name) != wanted.end())
      right = time_case(runner, c, buffers) && right;
  return right;
}

}  // namespace damacy::bench
