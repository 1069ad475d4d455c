#!/usr/bin/env python3
"""Plants one fault at a time into halo packing and its order of work; a test must fail.

    tools/plant_halo_faults.py BUILD [NAME …]     a configured build folder; sources are restored afterwards

halo_tests on the lazy host device must detect faults in the order of work; tests in Python, which compare with an
oracle, must detect the others. The extension is built for each of these. Prints a line for each fault, and exits 1 if
no test detected one.
"""

import pathlib
import sys

from planting import Fault, build, passes, run

ORDER, WIRE = "src/damacy/halo/work_order.cpp", "src/damacy/halo/wire.cpp"
ROTATE, SPEC = "src/damacy/halo/rotate.cpp", "src/damacy/halo/spec.cpp"
EXCHANGER, PHASES = "src/damacy/halo/exchanger.cpp", "src/damacy/halo/exchange_phases.cpp"
TRANSPORT, CACHE = "src/damacy/halo/transport.cpp", "src/damacy/halo/plan_cache.cpp"
PACKER, MPI = "src/damacy/halo/transformer.cpp", "src/damacy/halo/mpi.h"
IN_CPP = (ORDER, SPEC, EXCHANGER, PHASES, TRANSPORT, CACHE, PACKER, MPI)  # halo_tests alone must notice
TRANSFORMER, PLANS = "python/damacy/halo/data_transformer.py", "python/damacy/halo/_plans.py"
# name: (file, text, text that replaces it)
FAULTS = {
    "no wait for other streams": (ORDER, "for (Stream* other : others) stream.wait(other->record());", ";"),
    "no wait for streams named after": (ORDER, "for (Stream* other : after) stream.wait(other->record());", ";"),
    "no wait for the run before": (ORDER, "if (!in_order && !done_.ready()) stream.wait(done_);", ";"),
    "no wait for the buffer's last user": (ORDER, "for (const Event& event : before_) stream.wait(event);", ";"),
    "others do not wait": (ORDER, "for (Stream* other : others) other->wait(done);", ";"),
    "the last run is forgotten": (ORDER, "stream.record_again(done_);", ";"),
    "turns by +r": (WIRE, "modulo_4(-modulo_4(entry.rotation))", "modulo_4(entry.rotation)"),
    "slots exchanged": (ROTATE, "return {{true, false}, {false, true}};", "return {{false, true}, {true, false}};"),
    "a sign dropped": (WIRE, "copy.op = {block.negate, adjoint_};", "copy.op = {false, adjoint_};"),
    "Fortran order on the wire": (WIRE, "for (std::size_t i = extents.size(); i > 0; --i) {\n      strides",
                                  "for (std::size_t n = 0, i = 1; n < extents.size(); ++n, ++i) {\n      strides"),
    "a native wire by the strides at hand": (WIRE, "own.ranking.size() == extents.size() ? own.ranking : own.strides",
                                             "own.strides"),
    "an axis is not flipped": (ROTATE, "axes.j >= 0 && turns != 1", "false"),
    "the shared row of a staggered field is sent": (SPEC, "is_staggered(dim) ? 1 : 0", "0"),
    "cells outside of the allocation": (SPEC, "stop > length ? \"end\" : nullptr", "nullptr"),
    "a message is overwritten before it is on the device": (EXCHANGER, "memory.uploaded.wait();", ";"),
    "a message is sent before it is packed": (EXCHANGER, "stream->record().wait();  // the transport reads", ";  //"),
    "an exchange that failed half way goes on": (EXCHANGER, "if (!refuses.empty())", "if (false)"),
    "segments of a message by the receiver's side": (PHASES, "by(&Link::peer_side)", "by(&Link::side)"),
    "the shared row is sent to the wrong end": (PHASES, "(interior ? -1 : 1)", "1"),
    "corners are filled from the other side": (PHASES, "links_.fill == CornerFill::x", "links_.fill == CornerFill::y"),
    "messages in flight have one number": (TRANSPORT, "= begun_[phase];", "= 0;"),
    "digests are not compared": (TRANSPORT, "mine.first != theirs.second || mine.second != theirs.first", "false"),
    "receives are posted twice": (MPI, "if (!posted_.insert({slot, phase}).second) return;", ";"),
    "buffers of open sends are freed": (MPI, "if (!ended(request)) unused = false;", ";"),
    "no direction in the key of C++ plans": (CACHE, "key.add(static_cast<std::int64_t>(direction));", ";"),
    "no ranking in the key of C++ plans": (CACHE, "add(field.ranking);", ";"),
    "gaps of a native wire are not cleared": (PACKER, "std::memset(buffer.bytes().data(), 0, bytes);", ";"),
    "C++ unpacks into arrays that overlap": (PACKER, "copy::check_overlaps(*plan->plan, bases);", ";"),
    "no direction in the cache's key": (PLANS, "directs, unpack, adjoint)\n    with", "directs, adjoint)\n    with"),
    "no dims in the cache's key": (PLANS, "key = (fields,", "key = (tuple(f[:3] for f in fields),"),
    "the receive buffer has the size of the send buffer": (
        TRANSFORMER, "self._plans[True].buffer_bytes[0] // itemsize", "self._plans[False].buffer_bytes[0] // itemsize"),
    "offsets of 32 bits": ("src/damacy/copy/copy_plan.cpp", "  piece.src_slot = copy.src.slot;",
                           "  piece.src_slot = copy.src.slot;\n  const_cast<BlockCopy&>(block).src_offset = "
                           "static_cast<std::int32_t>(block.src_offset);"),
}  # fmt: skip


def tests_pass(folder: str, file: str) -> bool:
    if file in IN_CPP:
        build(folder, "halo_tests")
        return passes(f"{folder}/halo_tests")
    if "copy_plan" in file:
        build(folder, "copy_tests")
        return passes(f"{folder}/copy_tests", "--gtest_filter=CopyPlan.*")
    if file.endswith(".cpp"):
        build(folder, "_native")
    return passes(sys.executable, "-m", "pytest", "-q", "-x", "python/tests/test_halo_wire.py")


def main(folder: str, names: list[str]) -> int:
    chosen = [Fault(name, *FAULTS[name]) for name in names or FAULTS]
    return run(chosen, lambda file: tests_pass(folder, file), sound=[ORDER, WIRE, "src/damacy/copy/copy_plan.cpp"])


if __name__ == "__main__":
    sys.exit(main(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]))
