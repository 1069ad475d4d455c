"""If a limit of the address space (`ulimit -v`) makes an allocation fail, the error names it with numbers."""

import pytest
from support import child

PROGRAM = """
import resource, sys
import damacy
with damacy.Pipeline(damacy.Config(batch_size=1, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, device="cpu")):
    pass  # loads libraries before the limit is set
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = mapped + (512 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    damacy.Pipeline(damacy.Config(batch_size=1, host_buffer_bytes=3 << 30, device_buffer_bytes=1 << 20, device="cpu"))
except damacy.OutOfMemory as error:
    text = str(error)
    for part in ("RLIMIT_AS", "ulimit -v", str(limit), "in use", str(3 << 30), "host_buffer_bytes", "create"):
        assert part in text, (part, text)
else:
    raise AssertionError("no error")
"""


@pytest.mark.timeout(60)
def test_a_pipeline_that_does_not_fit_names_the_limit_and_the_numbers():
    child.run_well(PROGRAM)
