"""DIGEST-*: digests, and their exchange."""

from __future__ import annotations

from pytest_affine.mutants.catalogue.rows import mutant

__all__ = ["DIGESTS"]

DIGESTS = (
    mutant(
        "DIGEST-STABLE",
        "digest-depends-on-the-rank",
        "digests:DependsOnTheRank",
        "Has a digest of its own on every rank.",
    ),
    mutant(
        "DIGEST-STABLE",
        "digest-counts-its-digests",
        "digests:CountsItsDigests",
        "Has another digest every time.",
    ),
    mutant(
        "DIGEST-STABLE",
        "digest-depends-on-places-in-memory",
        "digests:DependsOnPlacesInMemory",
        "Has a digest of where the plans happen to be in memory.",
    ),
    mutant(
        "DIGEST-STABLE",
        "digest-depends-on-hashes",
        "digests:DependsOnHashes",
        "Has a digest that depends on the string-hash seed, which forked ranks share.",
        origin="F38",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-the-budget",
        "digests:IgnoresTheBudget",
        "Leaves the budget out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-element-sizes",
        "digests:IgnoresElementSizes",
        "Leaves element sizes out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-element-sizes-but-the-first",
        "digests:IgnoresElementSizesButTheFirst",
        "Takes the element size of the first parameter for that of all in the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-source-endpoints",
        "digests:IgnoresSourceEndpoints",
        "Leaves the endpoints of sources out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-target-endpoints",
        "digests:IgnoresTargetEndpoints",
        "Leaves the endpoints of targets out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-names",
        "digests:IgnoresNames",
        "Leaves the names of parameters out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-the-order-of-parameters",
        "digests:IgnoresTheOrderOfParameters",
        "Leaves the order of parameters out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-whose-segments-are",
        "digests:IgnoresWhoseSegmentsAre",
        "Leaves out of the digest where the segments of one parameter end and of the next begin.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-logical-shapes",
        "digests:IgnoresLogicalShapes",
        "Leaves logical shapes out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-source-sizes",
        "digests:IgnoresSourceSizes",
        "Leaves the sizes of source shards out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-target-sizes",
        "digests:IgnoresTargetSizes",
        "Leaves the sizes of target shards out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-takes-absent-sizes-for-none",
        "digests:TakesAbsentSizesForNone",
        "Has one digest for absent sizes and for no sizes.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-the-order-of-segments",
        "digests:IgnoresTheOrderOfSegments",
        "Leaves the order of segments out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-source-locations",
        "digests:IgnoresSourceLocations",
        "Leaves the source locations of segments out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-source-offsets",
        "digests:IgnoresSourceOffsets",
        "Leaves the source offsets of segments out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-source-strides",
        "digests:IgnoresSourceStrides",
        "Leaves the source strides of segments out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-target-locations",
        "digests:IgnoresTargetLocations",
        "Leaves the target locations of segments out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-target-offsets",
        "digests:IgnoresTargetOffsets",
        "Leaves the target offsets of segments out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-target-strides",
        "digests:IgnoresTargetStrides",
        "Leaves the target strides of segments out of the digest.",
    ),
    mutant(
        "DIGEST-SENSITIVE",
        "digest-ignores-shapes",
        "digests:IgnoresShapes",
        "Leaves the shapes of segments out of the digest.",
    ),
    mutant(
        "DIGEST-CANONICAL",
        "digest-keeps-the-order-of-filling",
        "digests:KeepsTheOrderOfFilling",
        "Has endpoints that keep the order in which they were filled, and a digest that shows it.",
    ),
    mutant(
        "DIGEST-AGREE",
        "digest-believes-rank-zero",
        "refusals:BelievesRankZero",
        "Compares nothing, and does on every rank what rank 0 was told.",
    ),
    mutant(
        "DIGEST-AGREE",
        "digest-compares-bytes-only",
        "refusals:ComparesBytesOnly",
        "Takes another dtype of the same size for the same.",
        origin="F31",
    ),
    mutant(
        "DIGEST-AGREE",
        "digest-names-nobody",
        "refusals:NamesNobody",
        "Refuses without naming a process.",
    ),
    mutant(
        "DIGEST-AGREE",
        "digest-broadcasts-before-refusing",
        "refusals:BroadcastsBeforeRefusing",
        "Sends something to everybody before it refuses, where there is something to move.",
    ),
    mutant(
        "DIGEST-REJECT",
        "digest-names-itself-only",
        "refusals:NamesItselfOnly",
        "Names the process itself in every refusal, and no other.",
    ),
    mutant(
        "DIGEST-REJECT",
        "digest-keeps-reasons-to-itself",
        "refusals:KeepsReasonsToItself",
        "Names the processes that refuse, and not the parameters.",
    ),
    mutant(
        "DIGEST-REJECT",
        "digest-refuses-before-the-exchange",
        "refusals:RefusesBeforeTheExchange",
        "Raises at once on a rank that misses a source buffer, and leaves the others waiting.",
        origin="F26",
        hangs=True,
    ),
)
