// One launch a phase of a copy plan: a block takes the tile of its number, finds its piece in a table that lies on the
// device since the first run, and adds the base addresses, which are parameters. Knows CUDA streams by handle.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "damacy/copy/cuda/plan_tile.h"
#include "damacy/core/error.h"
#include "damacy/core/text.h"

namespace damacy::copy_cuda {
namespace {

constexpr u32 kMostBases = 448;  // as parameters, of which there are 4 KiB

struct Table {
  const Piece* pieces;
  const u32* piece_of_tile;
};

template <u32 kBases>
struct Bases {
  u64 at[kBases];
  DAMACY_ELEMENT u64 operator[](u32 slot) const { return at[slot]; }
};

struct FarBases {  // more than fit into parameters
  const u64* at;
  DAMACY_ELEMENT u64 operator[](u32 slot) const { return load<u64>(reinterpret_cast<u64>(at + slot)); }
};

template <class T>
__device__ void transpose(const TileWork& work, unsigned char* shared) {
  T* values = reinterpret_cast<T*>(shared);
  take_transposed(work, values, threadIdx.x);
  __syncthreads();
  put_transposed(work, values, threadIdx.x);
}

__device__ void transpose_any(const TileWork& work, unsigned char* shared) {
  if (work.bytes == 8) return transpose<u64>(work, shared);
  if (work.bytes == 4) return transpose<u32>(work, shared);
  if (work.bytes == 2) return transpose<u16>(work, shared);
  transpose<u8>(work, shared);
}

template <bool kCasts, class BasesT>
__global__ void __launch_bounds__(kPlanThreads, 4) run_tiles(Table table, const __grid_constant__ BasesT bases) {
  __shared__ TileWork work;
  __shared__ Piece piece;
  __shared__ __align__(16) unsigned char shared[kTransposeBytes];
  constexpr u32 kWords = sizeof(Piece) / 4;
  static_assert(sizeof(Piece) % 4 == 0 && kWords <= kPlanThreads);
  const u32 index = __ldg(table.piece_of_tile + blockIdx.x);
  if (threadIdx.x < kWords)
    reinterpret_cast<u32*>(&piece)[threadIdx.x] =
        __ldg(reinterpret_cast<const u32*>(table.pieces + index) + threadIdx.x);
  __syncthreads();
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0)
      prepare(work, piece, blockIdx.x - piece.first_tile, bases[piece.src_slot], bases[piece.dst_slot]);
    __syncwarp();
    if (threadIdx.x < 4) prepare_divisor(work, threadIdx.x);
  }
  __syncthreads();
  switch (work.way) {
    case Way::rows:
      return move_rows(work, threadIdx.x);
    case Way::transposed:
      return transpose_any(work, shared);
    default:
      return do_elements<kCasts>(work, threadIdx.x);
  }
}

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw Error(Status::cuda, text(call, ": ", cudaGetErrorString(error)), "cuda");
}

// One phase's table on a device.
class PhaseTable {
 public:
  explicit PhaseTable(const copy::Phase& phase) : tiles_(phase.tiles) {
    std::vector<u32> piece_of_tile;
    piece_of_tile.reserve(phase.tiles);
    for (u32 i = 0; i < phase.pieces.size(); ++i) piece_of_tile.insert(piece_of_tile.end(), phase.pieces[i].tiles(), i);
    const std::size_t first = phase.pieces.size() * sizeof(Piece), second = piece_of_tile.size() * sizeof(u32);
    std::vector<std::byte> image(first + second);
    std::memcpy(image.data(), phase.pieces.data(), first);
    std::memcpy(image.data() + first, piece_of_tile.data(), second);
    check(cudaMalloc(&memory_, image.size()), "cudaMalloc");
    const cudaError_t copied = cudaMemcpy(memory_, image.data(), image.size(), cudaMemcpyHostToDevice);
    if (copied != cudaSuccess) cudaFree(memory_);
    check(copied, "cudaMemcpy");
    table_ = {static_cast<const Piece*>(memory_),
              reinterpret_cast<const u32*>(static_cast<const std::byte*>(memory_) + first)};
    for (const Piece& piece : phase.pieces) casts_ |= piece.from != piece.to;
  }
  PhaseTable(PhaseTable&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        table_(other.table_),
        tiles_(other.tiles_),
        casts_(other.casts_) {}
  PhaseTable& operator=(PhaseTable&&) = delete;
  ~PhaseTable() {
    if (memory_ != nullptr) cudaFree(memory_);  // an error here means that the context is gone, and the memory with it
  }

  template <class BasesT>
  cudaError_t launch(const BasesT& bases, cudaStream_t stream) const {
    if (casts_)
      run_tiles<true><<<tiles_, kPlanThreads, 0, stream>>>(table_, bases);
    else
      run_tiles<false><<<tiles_, kPlanThreads, 0, stream>>>(table_, bases);
    return cudaGetLastError();
  }

 private:
  void* memory_ = nullptr;
  Table table_{};
  u32 tiles_;
  bool casts_ = false;
};

class PlanTables final : public copy::DeviceTables {
 public:
  explicit PlanTables(const copy::Plan& plan) {
    for (const copy::Phase& phase : plan.phases()) phases.emplace_back(phase);
  }
  std::vector<PhaseTable> phases;
};

template <u32 kBases>
cudaError_t launch_near(const PhaseTable& table, std::span<const u64> bases, cudaStream_t stream) {
  Bases<kBases> parameters;
  std::copy(bases.begin(), bases.end(), parameters.at);
  return table.launch(parameters, stream);
}

// In stream order: allocated, written and freed behind the work that was there before.
cudaError_t launch_far(const PhaseTable& table, std::span<const u64> bases, cudaStream_t stream) {
  void* memory = nullptr;
  cudaError_t error = cudaMallocAsync(&memory, bases.size_bytes(), stream);
  if (error != cudaSuccess) return error;
  error = cudaMemcpyAsync(memory, bases.data(), bases.size_bytes(), cudaMemcpyHostToDevice, stream);
  if (error == cudaSuccess) error = table.launch(FarBases{static_cast<const u64*>(memory)}, stream);
  const cudaError_t freed = cudaFreeAsync(memory, stream);
  return error != cudaSuccess ? error : freed;
}

cudaError_t launch_phase(const PhaseTable& table, std::span<const u64> bases, cudaStream_t stream) {
  if (bases.size() <= 32) return launch_near<32>(table, bases, stream);
  if (bases.size() <= 128) return launch_near<128>(table, bases, stream);
  if (bases.size() <= kMostBases) return launch_near<kMostBases>(table, bases, stream);
  return launch_far(table, bases, stream);
}

}  // namespace
}  // namespace damacy::copy_cuda

namespace damacy::copy {

int launch_copies(const Plan& plan, std::span<const std::uint64_t> bases, int device, std::uint64_t stream) {
  auto& tables = static_cast<copy_cuda::PlanTables&>(
      plan.tables(device, [&] { return std::make_unique<copy_cuda::PlanTables>(plan); }));
  // 0 and 1 are the legacy default stream, 2 is the thread's own.
  const auto handle = stream == 0 ? cudaStreamLegacy : reinterpret_cast<cudaStream_t>(stream);
  for (const auto& table : tables.phases)
    if (const cudaError_t error = copy_cuda::launch_phase(table, bases, handle); error != cudaSuccess)
      return static_cast<int>(error);
  return 0;
}

}  // namespace damacy::copy
