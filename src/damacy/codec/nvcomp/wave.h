// What surrounds nvCOMP's kernels in a wave, one source for host and device: lists of pointers in front, status words
// behind. Knows addresses and sizes; not nvCOMP's functions.
#pragma once

#include <cstddef>
#include <type_traits>

#include "damacy/codec/gpu_zstd/descriptors.h"

namespace damacy::nvcomp {

using gpu::u32;
using gpu::u64;
using gpu::u8;

// One frame, as uploaded: zstd ones first, then LZ4, then raw ones, which are only copied.
struct Record {
  u64 source;  // from the wave's source and destination bases
  u64 destination;
  u32 source_bytes;
  u32 bytes;
  u32 index;  // of its status word
  u32 reserved;
};
static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) == 32);

// No verdict yet; not one of nvCOMP's.
inline constexpr int kPending = -1;

struct Lists {
  const void** sources;
  void** destinations;
  std::size_t* source_bytes;
  std::size_t* room;
  std::size_t* produced;
  int* verdicts;
};

struct View {
  const Record* records;
  u32 packed;  // zstd and LZ4
  u32 count;   // raw ones too
  const u8* source;
  u8* destination;
  Lists lists;  // of the packed ones
  u32* status;
};

// Entry i < packed.
DAMACY_HOST_DEVICE inline void describe(const View& view, u32 i) {
  const Record& record = view.records[i];
  view.lists.sources[i] = view.source + record.source;
  view.lists.destinations[i] = view.destination + record.destination;
  view.lists.source_bytes[i] = record.source_bytes;
  view.lists.room[i] = record.bytes;
  view.lists.produced[i] = 0;
  view.lists.verdicts[i] = kPending;
}

// Every `lanes`th byte of raw frame i, packed <= i < count.
DAMACY_HOST_DEVICE inline void copy_raw(const View& view, u32 i, u32 lane, u32 lanes) {
  const Record& record = view.records[i];
  for (u32 k = lane; k < record.bytes; k += lanes)
    view.destination[record.destination + k] = view.source[record.source + k];
}

// Any i < count, when all is decoded. What nvCOMP calls a success may have written only a part.
DAMACY_HOST_DEVICE inline void conclude(const View& view, u32 i) {
  const Record& record = view.records[i];
  const bool good = i >= view.packed || (view.lists.verdicts[i] == 0 && view.lists.produced[i] == record.bytes);
  view.status[record.index] = static_cast<u32>(good ? gpu::Fault::none : gpu::Fault::ask_host);
}

// The two launches around nvCOMP's own, on a CUstream. 0, or the CUDA error.
int launch_prepare(const View& view, u64 stream);
int launch_conclude(const View& view, u64 stream);

}  // namespace damacy::nvcomp
