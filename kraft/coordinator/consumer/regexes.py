"""Takes the topics that the host found for the regular expressions of a group.

The host resolves them beside the shard, because that takes long with many topics and depends on what the member may
see. Until then an expression matches no topics.
"""

from __future__ import annotations

from collections.abc import Mapping

from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.draft import METADATA_CHANGED, NOTHING, ConsumerDraft, ConsumerGroupDecision
from kraft.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from kraft.coordinator.shard import DecisionContext


def unresolved_regexes(group: ConsumerGroup) -> set[str]:
    """Return the expressions that members subscribe to and that have not been resolved."""
    return {regex for regex in group.regex_counts if regex not in group.regexes}


def decide_resolved(
    group: ConsumerGroup | None, results: Mapping[str, ResolvedRegex], context: DecisionContext
) -> ConsumerGroupDecision:
    """Record the results, and bump the group's epoch once if any differs. Expressions that nobody uses are skipped."""
    if group is None:
        return NOTHING
    draft = ConsumerDraft(group)
    differs = False
    for regex in sorted(results):
        if group.subscribers_of_regex(regex):
            before = group.regexes.get(regex)
            differs |= (frozenset() if before is None else before.topics) != results[regex].topics
            draft.emit(records.resolved_regex(group.group_id, regex, results[regex]))
    new_hash = draft.group.metadata_hash_with(context.image)
    if differs or new_hash != group.metadata_hash:
        draft.bump_epoch(new_hash, "other topics match a regular expression" if differs else METADATA_CHANGED)
    return draft.decision()
