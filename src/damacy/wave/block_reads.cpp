#include "damacy/wave/block_reads.h"

#include <algorithm>
#include <utility>

#include "damacy/fetch/chunk_reads.h"
#include "damacy/wave/stage_chunk.h"

namespace damacy {
namespace {

// Of a longer table no part is worth a device: the host decodes the chunk.
constexpr std::uint64_t kMostTable = 128 << 10;

class Tables final : public AwaitedCalls {
 public:
  Tables(std::shared_ptr<WantedChunks> chunks, std::span<const std::uint32_t> some)
      : chunks_(std::move(chunks)), task_(chunks_->new_task()), some_(some.begin(), some.end()), tables_(some.size()) {}

  // Why a head cannot be read shows when the host reads the chunk.
  void call(std::size_t number) override {
    const std::uint32_t chunk = some_[number];
    static_cast<void>(failure_of([&] {
      auto blocks = std::make_shared<NeededBlocks>();
      if (find(chunk, *blocks).ok()) tables_[number].blocks = std::move(blocks);
    }));
  }
  void time_out(std::size_t number, const Error& why) noexcept override {
    tables_[number] = {nullptr, true};
    chunks_->fail_chunk(some_[number], why);
  }
  std::vector<TableOfBlocks> take() { return std::move(tables_); }

 private:
  DecodeResult find(std::uint32_t chunk, NeededBlocks& blocks) {
    const ChunkPlace& where = chunks_->where(chunk);
    const auto decoded = static_cast<std::uint64_t>(chunks_->metadata_of(chunk).chunk_bytes());
    const std::vector<ByteRange> needed = chunks_->needed_bytes(chunk);
    std::vector<std::byte> head;
    std::uint64_t size = std::min<std::uint64_t>(CodecChain::kHeadBytes, where.bytes);
    const auto read_to = [&](std::uint64_t end) {
      const std::uint64_t begin = head.size();
      head.resize(end);
      const Stopwatch watch;
      chunks_->object_with(chunk)->read_exact(where.offset + begin, std::span(head).subspan(begin));
      count_read(chunks_->board(), watch.elapsed(), end - begin, end - begin);
      return find_needed_blocks(head, where.bytes, decoded, needed, blocks);
    };
    const DecodeResult result = read_to(size);
    const bool is_longer = result.status == DecodeStatus::need_more && result.expected > size;
    return is_longer && result.expected <= std::min(kMostTable, where.bytes) ? read_to(result.expected) : result;
  }
  void ended() noexcept override { task_.end(); }

  const std::shared_ptr<WantedChunks> chunks_;
  Task<Job> task_;  // until all heads are read
  const std::vector<std::uint32_t> some_;
  std::vector<TableOfBlocks> tables_;
};

}  // namespace

std::vector<TableOfBlocks> read_tables(const std::shared_ptr<WantedChunks>& chunks, std::span<const std::uint32_t> some,
                                       Readers& readers, const std::stop_token& stop) {
  const auto tables = std::make_shared<Tables>(chunks, some);
  if (!readers.run_and_wait(tables, some.size(), readers.contexts().size(), stop))
    throw Error(Status::shutdown, "stopped while tables of blocks were read", "closed");
  return tables->take();
}

BlocksRead::BlocksRead(std::shared_ptr<Wave> wave, const std::shared_ptr<WantedChunks>& chunks, StagedChunk& staged,
                       StagedRange range, DecodeMemory memory)
    : task_(chunks->new_task()),
      wave_(std::move(wave)),
      chunks_(chunks),
      staged_(&staged),
      chunk_(staged.chunk),
      blocks_(staged.blocks),
      range_(std::move(range)),
      bytes_(range_->memory()),
      piece_(range_->piece()),
      memory_(std::move(memory)),
      read_(*chunks_) {}

void BlocksRead::fail(const Error& why) noexcept {
  staged_->failed = true;
  chunks_->fail_chunk(chunk_, why);
}

// The read may still write to both.
void BlocksRead::abandon(const Error& why) noexcept {
  for (const auto& memory : {piece_, whole_})
    if (memory) memory->strand(why.where().key, why.where().store);
  if (range_) fail(why);
  const auto ends = std::exchange(range_, std::nullopt);
  read_.end();
  task_.end();
}

// The table was read before.
Part BlocksRead::prepare(std::size_t, std::stop_token stop) {
  stop_ = std::move(stop);
  chunks_->check_wanted();
  std::ranges::copy(blocks_->table, bytes_.begin());
  watch_ = {};
  return {chunks_->object_with(chunk_), chunks_->where(chunk_).offset, {}};
}

void BlocksRead::complete(std::size_t thread, const Part& part, const Error* failure) {
  const auto failed = failure_of([&] {
    if (failure != nullptr) throw *failure;
    for (const NeededBlocks::Part& one : std::span(blocks_->encoded).subspan(1))
      read(part, one.range.begin, bytes_.subspan(one.at, one.range.size()));
    if (!stage_blocks(*wave_, *staged_, bytes_)) decode_whole(thread, part);
  });
  if (failed) fail(*failed);
  const auto ends = std::exchange(range_, std::nullopt);
  read_.end();
}

void BlocksRead::read(const Part& part, std::uint64_t position, std::span<std::byte> to) {
  watch_ = {};
  part.object->read_exact(part.offset + position, to);
  count_read(chunks_->board(), watch_.elapsed(), to.size(), to.size());
}

// Goes to the device at once: the wave has no other memory for decoded bytes.
void BlocksRead::decode_whole(std::size_t thread, const Part& part) {
  const ReadBuffer packed = take_buffer(memory_.staging, blocks_->encoded_size, stop_);
  whole_ = packed.memory;
  read(part, 0, packed.bytes);
  staged_->by_device = false;
  const bool done = decode_on_host(
      *chunks_, {thread, chunk_, packed.bytes, {}, stop_}, memory_, [&] { return chunks_->needed_bytes(chunk_); },
      [&](std::span<const std::byte> decoded) {
        for_decoded_parts(*staged_, [&](ByteRange range, std::uint64_t at) {
          wave_->write_decoded(at, decoded.subspan(range.begin, range.size()));
        });
      });
  static_cast<void>(done);  // all of it is available
  ChunkLayout layout;
  layout.chunk_bytes = static_cast<std::uint64_t>(chunks_->metadata_of(chunk_).chunk_bytes());
  add_decoded_placements(staged_->share->placements, *wave_, *staged_, layout);
}

}  // namespace damacy
