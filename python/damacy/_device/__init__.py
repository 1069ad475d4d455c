"""Behind `damacy.DeviceArray`: arrays, their memory, and the protocols by which other libraries exchange them."""
