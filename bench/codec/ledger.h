// How much has been tried in all runs together, in a text file: one line a subject. Knows no frames.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace damacy::bench {

class Ledger {
 public:
  struct Entry {
    std::uint64_t frames = 0;     // that the decoder was given
    std::uint64_t on_device = 0;  // streams of them that its scan let pass, so that kernels saw them
    std::uint64_t checked = 0;    // streams compared with the reference decoder
    std::uint64_t batches = 0;    // the next run goes on behind them
    std::uint64_t findings = 0;   // wrong bytes, differing verdicts, escaped bytes
  };

  explicit Ledger(std::string file);  // empty: nothing is kept
  Entry& of(const std::string& subject) { return entries_[subject]; }
  void save() const;

 private:
  std::string file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace damacy::bench
