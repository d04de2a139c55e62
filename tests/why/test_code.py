"""The instructions of a kernel in what cuobjdump prints, and how those of two differ. The output of cuobjdump 13.1 is of small
kernels, shortened."""

from __future__ import annotations

from kbench.why.code import changed_lines, opcode, opcode_counts, ptx_of, sass_of

DUMP = """
Fatbin elf code:
================
arch = sm_80
code version = [1,8]

	code for sm_80
		Function : _Z3addPfPKfi
	.headerflags	@"EF_CUDA_64BIT_ADDRESS EF_CUDA_SM80 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM80)"
        /*0000*/                   MOV R1, c[0x0][0x28] ;                              /* 0x00000a0000017a02 */
                                                                                       /* 0x000fe40000000f00 */
        /*0010*/                   BRA 0x10 ;                                          /* 0x00000a0000017a02 */
	code for sm_90
		Function : _Z5otherv
        /*0000*/                   EXIT ;                                              /* 0x000000000000094d */
		Function : _Z3addPfPKfi
	.headerflags	@"EF_CUDA_64BIT_ADDRESS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"
        /*0000*/                   S2R R0, SR_TID.X ;                                  /* 0x0000000000007919 */
                                                                                       /* 0x000e2e0000002100 */
        /*0010*/                   BSSY B0, 0x50 ;                                     /* 0x000001b000007945 */
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64+0x10] ;               /* 0x0000000404047981 */
        /*0030*/                   IADD3 R6, R6, 0x20, RZ ;                            /* 0xffffffff06067810 */
        /*0040*/               @P1 BRA 0x20 ;                                          /* 0xffffff1000001947 */
        /*0050*/              @!P0 EXIT ;                                              /* 0x000000000000894d */
        /*0060*/                   BRA 0x60 ;                                          /* 0xfffffffc00fc7947 */
        /*0070*/                   NOP ;                                               /* 0x0000000000007918 */
        /*0080*/                   NOP ;                                               /* 0x0000000000007918 */
"""

PTX = """//
.version 8.7
.target sm_90a

	// .globl	scaled                  // -- Begin function scaled
.visible .entry scaled(
	.param .u64 .ptr .global .align 1 scaled_param_0,
	.param .u32 scaled_param_2
)
.reqntid 128
{
	.reg .b32 	%r<29>;
	.loc	1 5 0                           // k.py:5:0
$L__func_begin0:

// %bb.0:
	ld.param.b32 	%r4, [scaled_param_2];
$L__tmp0:
	@%p1 bra 	$L__BB0_3;
$L__BB0_3:
	ret;
}
.visible .entry other()
{
	ret;
}
	.section	.debug_abbrev
"""


def test_the_instructions_of_one_function_with_labels_in_place_of_addresses() -> None:
    assert sass_of(DUMP, "_Z3addPfPKfi") == (
        "sm_90",
        [
            "    S2R R0, SR_TID.X",
            "    BSSY B0, .L2",
            ".L1:",
            "    LDG.E.128 R4, desc[UR4][R2.64+0x10]",
            "    IADD3 R6, R6, 0x20, RZ",
            "    @P1 BRA .L1",
            ".L2:",
            "    @!P0 EXIT",
        ],
    )
    assert sass_of(DUMP, "_Z5otherv") == ("sm_90", ["    EXIT"])
    assert sass_of(DUMP, "_Z3add") == ("", []) and sass_of("", "k") == ("", [])


def test_ptx_of_one_function_without_what_only_debuggers_read() -> None:
    lines = ptx_of(PTX, "scaled")
    assert lines[0] == ".visible .entry scaled(" and lines[-1] == "}"
    assert "    ld.param.b32     %r4, [scaled_param_2];" in lines and "$L__BB0_3:" in lines
    assert not [line for line in lines if ".loc" in line or "tmp0" in line or "//" in line or not line.strip()]
    assert ptx_of(PTX, "other") == [".visible .entry other()", "{", "    ret;", "}"]
    assert ptx_of(PTX, "scale") == []


def test_the_kind_of_an_instruction() -> None:
    kinds = {
        "    @!P0 LDG.E.128 R4, desc[UR4][R2.64]": "LDG.E.128",
        ".L1:": "",
        "    ld.global.v4.b32 {%r1, %r2}, [%rd1];": "ld.global.v4.b32",
        "    @%p1 bra $L__BB0_3;": "bra",
        "    ret;": "ret",
        "    .reg .b32 %r<29>;": "",
        "$L__BB0_3:": "",
        "{": "",
        "": "",
    }
    assert {line: opcode(line) for line in kinds} == kinds


def test_the_largest_differences_in_number_come_first() -> None:
    old = ["    LDG.E R1, [R2]", "    LDG.E R3, [R4]", "    EXIT"]
    new = ["    LDG.E.64 R1, [R2]", "    EXIT"]
    assert opcode_counts([old, new]) == [["LDG.E", "2", "0"], ["LDG.E.64", "0", "1"], ["EXIT", "1", "1"]]


def test_other_registers_and_labels_are_no_difference() -> None:
    old = [".L1:", "    LDG.E R1, [R2.64+0x10]", "    @P0 BRA .L1", "    EXIT"]
    same = [".L7:", "    LDG.E R9, [R4.64+0x10]", "    @P3 BRA .L7", "    EXIT"]
    assert list(changed_lines(old, same)) == []
    other = [".L7:", "    LDG.E R9, [R4.64+0x20]", "    @P3 BRA .L7", "    EXIT"]
    assert list(changed_lines(old, other)) == [
        "@@ -1,4 +1,4 @@",
        "  .L7:",
        "-     LDG.E R1, [R2.64+0x10]",
        "+     LDG.E R9, [R4.64+0x20]",
        "      @P3 BRA .L7",
        "      EXIT",
    ]
