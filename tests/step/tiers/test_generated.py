"""The summary of generated source: kernels, calls of libraries, and the memory that exists at the same time."""
from penstock._src.step.tiers import generated

SOURCE = """
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
triton_poi_fused_0 = async_compile.triton('triton_poi_fused_0', '''...''')
def call(args):
    arg0_1, = args
    args.clear()
        buf0 = empty_strided_cuda((16, 8), (8, 1), torch.float32)
        extern_kernels.mm(arg0_1, arg0_1, out=buf0)
        buf1 = empty_strided_cuda((16, 8), (8, 1), torch.bfloat16)
        triton_poi_fused_0.run(buf0, buf1, 128, stream=stream0)
        buf2 = reinterpret_tensor(buf0, (8, 16), (16, 1), 0); del buf0  # reuse
        triton_poi_fused_0.run(buf1, buf2, 128, stream=stream0)
        del buf1
        buf3 = torch.ops.aten._scaled_dot_product_flash_attention.default(buf2)
        del buf2
        buf4 = empty_strided_cuda((4, ), (1, ), torch.bool)
        triton_red_fused_1.run(buf3, buf4, 4, stream=stream0)
        buf5 = empty_strided_cuda((0, 3), (3, 1), torch.float64)
    return (buf4, buf5)
"""


def test_memory_is_what_exists_at_the_same_time():
    assert generated.plan(SOURCE) == (4, 1, 16 * 8 * 4 + 16 * 8 * 2)


def test_kernels_and_libraries_are_counted_where_they_are_called():
    kernels, libraries = generated.calls(SOURCE)
    assert kernels == {"triton_poi_fused_0": 2, "triton_red_fused_1": 1}
    assert libraries == {"mm": 1, "_scaled_dot_product_flash_attention": 1}
    assert "3 times: triton_poi_fused_0 × 2, triton_red_fused_1" in generated.summary(SOURCE)[0]


def test_nothing_generated():
    assert generated.plan("") == (0, 0, 0) and "none" in generated.summary("")[1]
