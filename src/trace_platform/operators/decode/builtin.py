"""ABIs that everybody needs, by name."""

from __future__ import annotations

from functools import cache

from trace_platform.operators.decode.abi import Abi
from trace_platform.operators.decode.abi_text import parse_event, parse_function

_EVENTS: dict[str, tuple[str, ...]] = {
    "erc20": (
        "Transfer(address indexed from, address indexed to, uint256 value)",
        "Approval(address indexed owner, address indexed spender, uint256 value)",
    ),
    "erc721": (
        "Transfer(address indexed from, address indexed to, uint256 indexed tokenId)",
        "Approval(address indexed owner, address indexed approved, uint256 indexed tokenId)",
        "ApprovalForAll(address indexed owner, address indexed operator, bool approved)",
    ),
    "erc1155": (
        "TransferSingle(address indexed operator, address indexed from, address indexed to,"
        " uint256 id, uint256 value)",
        "TransferBatch(address indexed operator, address indexed from, address indexed to,"
        " uint256[] ids, uint256[] values)",
        "URI(string value, uint256 indexed id)",
    ),
    # Its transfers and approvals are ERC-20's.
    "weth": (
        "Deposit(address indexed dst, uint256 wad)",
        "Withdrawal(address indexed src, uint256 wad)",
    ),
    "uniswap_v2": (
        "Mint(address indexed sender, uint256 amount0, uint256 amount1)",
        "Burn(address indexed sender, uint256 amount0, uint256 amount1, address indexed to)",
        "Swap(address indexed sender, uint256 amount0In, uint256 amount1In, uint256 amount0Out,"
        " uint256 amount1Out, address indexed to)",
        "Sync(uint112 reserve0, uint112 reserve1)",
    ),
    "uniswap_v2_factory": (
        "PairCreated(address indexed token0, address indexed token1, address pair, uint256)",
    ),
    "uniswap_v3": (
        "Initialize(uint160 sqrtPriceX96, int24 tick)",
        "Mint(address sender, address indexed owner, int24 indexed tickLower,"
        " int24 indexed tickUpper, uint128 amount, uint256 amount0, uint256 amount1)",
        "Collect(address indexed owner, address recipient, int24 indexed tickLower,"
        " int24 indexed tickUpper, uint128 amount0, uint128 amount1)",
        "Burn(address indexed owner, int24 indexed tickLower, int24 indexed tickUpper,"
        " uint128 amount, uint256 amount0, uint256 amount1)",
        "Swap(address indexed sender, address indexed recipient, int256 amount0, int256 amount1,"
        " uint160 sqrtPriceX96, uint128 liquidity, int24 tick)",
        "Flash(address indexed sender, address indexed recipient, uint256 amount0,"
        " uint256 amount1, uint256 paid0, uint256 paid1)",
        "IncreaseObservationCardinalityNext(uint16 observationCardinalityNextOld,"
        " uint16 observationCardinalityNextNew)",
        "SetFeeProtocol(uint8 feeProtocol0Old, uint8 feeProtocol1Old, uint8 feeProtocol0New,"
        " uint8 feeProtocol1New)",
        "CollectProtocol(address indexed sender, address indexed recipient, uint128 amount0,"
        " uint128 amount1)",
    ),
    "uniswap_v3_factory": (
        "PoolCreated(address indexed token0, address indexed token1, uint24 indexed fee,"
        " int24 tickSpacing, address pool)",
        "OwnerChanged(address indexed oldOwner, address indexed newOwner)",
        "FeeAmountEnabled(uint24 indexed fee, int24 indexed tickSpacing)",
    ),
    "chainlink": (
        "AnswerUpdated(int256 indexed current, uint256 indexed roundId, uint256 updatedAt)",
        "NewRound(uint256 indexed roundId, address indexed startedBy, uint256 startedAt)",
    ),
}

_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "erc20": (
        "transfer(address to, uint256 value)",
        "transferFrom(address from, address to, uint256 value)",
        "approve(address spender, uint256 value)",
    ),
    # transferFrom and approve are hashed as ERC-20's are.
    "erc721": (
        "safeTransferFrom(address from, address to, uint256 tokenId)",
        "safeTransferFrom(address from, address to, uint256 tokenId, bytes data)",
        "setApprovalForAll(address operator, bool approved)",
    ),
    "erc1155": (
        "safeTransferFrom(address from, address to, uint256 id, uint256 value, bytes data)",
        "safeBatchTransferFrom(address from, address to, uint256[] ids, uint256[] values,"
        " bytes data)",
    ),
    "weth": ("deposit()", "withdraw(uint256 wad)"),
    "uniswap_v2": (
        "swap(uint256 amount0Out, uint256 amount1Out, address to, bytes data)",
        "mint(address to)",
        "burn(address to)",
        "skim(address to)",
        "sync()",
    ),
    "uniswap_v2_factory": ("createPair(address tokenA, address tokenB)",),
    "uniswap_v3": (
        "swap(address recipient, bool zeroForOne, int256 amountSpecified,"
        " uint160 sqrtPriceLimitX96, bytes data)",
        "mint(address recipient, int24 tickLower, int24 tickUpper, uint128 amount, bytes data)",
        "burn(int24 tickLower, int24 tickUpper, uint128 amount)",
        "collect(address recipient, int24 tickLower, int24 tickUpper, uint128 amount0Requested,"
        " uint128 amount1Requested)",
        "flash(address recipient, uint256 amount0, uint256 amount1, bytes data)",
    ),
    "uniswap_v3_factory": ("createPool(address tokenA, address tokenB, uint24 fee)",),
}

NAMES = tuple(_EVENTS)


@cache
def builtin(name: str) -> Abi:
    return Abi(
        name,
        tuple(map(parse_event, _EVENTS[name])),
        tuple(map(parse_function, _FUNCTIONS.get(name, ()))),
    )
