"""Crops, flips and normalising equal MONAI's; world coordinates equal those that ome-zarr reads."""

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")


@pytest.fixture
def image(tmp_path):
    voxels = np.random.default_rng(0).integers(0, 4096, (2, 20, 70, 80), dtype="u2")
    zarr.create_array(tmp_path / "image.zarr", data=voxels, chunks=(1, 8, 32, 32))
    return tmp_path / "image.zarr", voxels


@pytest.mark.parametrize("flip", [(), (-1,), (-2, -1), (-3, -2, -1)], ids=str)
def test_crops_flips_and_normalising_are_monais(image, flip):
    pytest.importorskip("torch")
    transforms = pytest.importorskip("monai.transforms")
    path, voxels = image
    box = [(0, 2), (3, 15), (10, 58), (20, 68)]
    subtrahend, divisor = 311.5, 977.25
    spec = damacy.ArraySpec(scale=1 / divisor, offset=-subtrahend / divisor)
    config = damacy.Config(batch_size=1, device="cpu", arrays={"image": spec})
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample({"image": (path, box)}, flip=flip)])
        with next(iter(pipeline)) as batch:
            row = batch["image"].numpy()[0].copy()

    start, stop = zip(*box[1:])
    crop = transforms.SpatialCrop(roi_start=start, roi_end=stop)(voxels.astype("f4"))
    normal = transforms.NormalizeIntensity(subtrahend=subtrahend, divisor=divisor)(crop)
    if flip:
        normal = transforms.Flip(spatial_axis=list(flip))(normal)
    wanted = np.asarray(normal, "f4")
    # A product and a sum round differently from a difference and a quotient, by the size of the operands.
    unit = np.spacing(np.maximum(np.abs(wanted), np.float32(subtrahend / divisor)))
    assert (np.abs(row - wanted) <= 2 * unit).all()


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_scale_and_translation_are_those_of_ome_zarr(tmp_path, version):
    pytest.importorskip("ome_zarr")
    from ome_zarr import io, reader, writer
    from ome_zarr.format import FormatV04, FormatV05

    form = FormatV04() if version == "0.4" else FormatV05()
    path = tmp_path / "image.zarr"
    transformations = [
        [
            {"type": "scale", "scale": [2.0, 0.5 * factor, 0.25 * factor]},
            {"type": "translation", "translation": [1.0, 3.5, -2.0]},
        ]
        for factor in (1, 2)
    ]
    levels = [np.zeros((4, 32 // factor, 48 // factor), "u2") for factor in (1, 2)]
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    group = zarr.open_group(path, mode="w", zarr_format=2 if version == "0.4" else 3)
    writer.write_multiscale(levels, group, fmt=form, axes=axes, coordinate_transformations=transformations)

    (node,) = [
        node for node in reader.Reader(io.parse_url(str(path)))() if "coordinateTransformations" in node.metadata
    ]
    opened = damacy.open_image(path)
    levels_read = [opened.level(name) for name in opened.levels]
    assert len(levels_read) == 2
    for level, read, data in zip(levels_read, node.metadata["coordinateTransformations"], node.data, strict=True):
        of_type = {each["type"]: each[each["type"]] for each in read}
        assert list(level.scale) == of_type["scale"] and list(level.translation) == of_type["translation"]
        assert level.shape == data.shape


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_labels_and_fields_of_plates_are_where_ome_zarr_reads_them(tmp_path, version):
    pytest.importorskip("ome_zarr")
    from ome_zarr import io, reader, writer
    from ome_zarr.format import FormatV04, FormatV05

    form = FormatV04() if version == "0.4" else FormatV05()
    group = zarr.open_group(tmp_path / "plate.zarr", mode="w", zarr_format=2 if version == "0.4" else 3)
    wells = {"A/1": ("0", "1"), "B/3": ("0",)}
    writer.write_plate_metadata(group, ["A", "B"], ["1", "2", "3"], list(wells), fmt=form)
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    random, written = np.random.default_rng(0), {}
    for k, (well, fields) in enumerate(wells.items()):
        writer.write_well_metadata(group.require_group(well), list(fields), fmt=form)
        for field in fields:
            of_field = group.require_group(f"{well}/{field}")
            voxels = random.integers(0, 4096, (20 + k, 33), dtype="u2")
            place = [[{"type": "scale", "scale": [0.5 + k, 0.25]}, {"type": "translation", "translation": [3.0, -k]}]]
            writer.write_multiscale([voxels], of_field, fmt=form, axes=axes, coordinate_transformations=place)
            label = (voxels[::2, ::3] > 2000).astype("u1")
            coarse = [
                [{"type": "scale", "scale": [2 * (0.5 + k), 0.75]}, {"type": "translation", "translation": [3, -k]}]
            ]
            writer.write_multiscale_labels(
                [label], of_field, "nuclei", fmt=form, axes=axes, coordinate_transformations=coarse
            )
            written[f"{well}/{field}"] = voxels, label

    images = damacy.open(tmp_path / "plate.zarr").images()
    assert list(images) == list(written)
    for path, (voxels, label) in written.items():
        image = images[path]
        np.testing.assert_array_equal(image.read(), voxels)
        np.testing.assert_array_equal(image.labels["nuclei"].read(), label)
        nodes = reader.Reader(io.parse_url(str(tmp_path / "plate.zarr" / path)))()  # the image, then its labels
        found = [node.metadata["coordinateTransformations"] for node in nodes if node.data]
        for opened, (of_level,) in zip((image, image.labels["nuclei"]), found, strict=True):
            of_type = {each["type"]: each[each["type"]] for each in of_level}
            assert (list(opened.scale), list(opened.translation)) == (of_type["scale"], of_type["translation"])
