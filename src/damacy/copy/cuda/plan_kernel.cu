// Runs a copy plan with one launch per phase. A block reads its tile from a table that is on the device since the first
// run, and adds the base addresses, which are parameters. Knows CUDA streams by handle.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "damacy/copy/cuda/plan_tile.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::copy_cuda {
namespace {

constexpr u32 kMostBases = 448;  // as parameters, of which there are 4 KiB

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

__device__ void transpose_any(const TileWork& work) {
  __shared__ __align__(16) unsigned char shared[kTransposeBytes];
  if (work.record.to_bytes == 8) return transpose<u64>(work, shared);
  if (work.record.to_bytes == 4) return transpose<u32>(work, shared);
  if (work.record.to_bytes == 2) return transpose<u16>(work, shared);
  transpose<u8>(work, shared);
}

// The largest needs of a table's tiles. Kernels for more need more registers and shared memory.
enum class Need { moves, transposes, all };

// A block owns a tile. Each thread loads the record, so that no thread waits for another.
template <Need kNeed, class BasesT>
__global__ void __launch_bounds__(kPlanThreads, 5)
    run_tiles(const TileRecord* __restrict__ records, const __grid_constant__ BasesT bases) {
  TileRecord record;
  constexpr u32 kVectors = sizeof record / sizeof(uint4);
  const auto* fetched = reinterpret_cast<const uint4*>(records + blockIdx.x);
  DAMACY_UNROLL
  for (u32 i = 0; i < kVectors; ++i) reinterpret_cast<uint4*>(&record)[i] = __ldg(fetched + i);
  const TileWork work(record, bases[record.src_slot], bases[record.dst_slot]);
  const Way way = way_of(work);
  if (way == Way::elements || way == Way::bytes)
    return do_elements<kNeed == Need::all>(work, way == Way::elements, threadIdx.x);
  if constexpr (kNeed != Need::moves)
    if (way == Way::transposed) return transpose_any(work);
  move_tile(work, way, threadIdx.x);
}

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw Error(Status::cuda, formatted("{}: {}", call, cudaGetErrorString(error)), "cuda");
}

Need need_of(std::span<const TileRecord> records) {
  Need need = Need::moves;
  for (const TileRecord& record : records) {
    if (record.from != record.to) return Need::all;
    if (record.lie == Lie::turned) need = Need::transposes;
  }
  return need;
}

// Complete on return, so that launches on any stream may follow. A copy of pageable memory on the default stream may
// return before it is made, and would wait for work of others.
cudaError_t upload(void* to, const void* from, std::size_t bytes) {
  cudaStream_t own = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, own);
  const cudaError_t made = cudaStreamSynchronize(own);
  cudaStreamDestroy(own);
  return error != cudaSuccess ? error : made;
}

// One phase's table on a device.
class PhaseTable {
 public:
  explicit PhaseTable(const copy::Phase& phase) : tiles_(phase.tiles) {
    const std::vector<TileRecord> records = tile_records(phase);
    need_ = need_of(records);
    const std::size_t bytes = records.size() * sizeof(TileRecord);
    check(cudaMalloc(&memory_, bytes), "cudaMalloc");
    const cudaError_t uploaded = upload(memory_, records.data(), bytes);
    if (uploaded != cudaSuccess) cudaFree(memory_);
    check(uploaded, "uploading a plan's table");
  }
  PhaseTable(PhaseTable&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), tiles_(other.tiles_), need_(other.need_) {}
  PhaseTable& operator=(PhaseTable&&) = delete;
  ~PhaseTable() {
    if (memory_ != nullptr) cudaFree(memory_);  // an error here means that the context is gone, and the memory with it
  }

  template <class BasesT>
  cudaError_t launch(const BasesT& bases, cudaStream_t stream) const {
    const auto* records = static_cast<const TileRecord*>(memory_);
    if (need_ == Need::moves)
      run_tiles<Need::moves><<<tiles_, kPlanThreads, 0, stream>>>(records, bases);
    else if (need_ == Need::transposes)
      run_tiles<Need::transposes><<<tiles_, kPlanThreads, 0, stream>>>(records, bases);
    else
      run_tiles<Need::all><<<tiles_, kPlanThreads, 0, stream>>>(records, bases);
    return cudaGetLastError();
  }

 private:
  void* memory_ = nullptr;
  u32 tiles_;
  Need need_ = Need::moves;
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
