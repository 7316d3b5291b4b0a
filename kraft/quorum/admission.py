"""How the leader of one term brings learners back, so that they vote again.

A learner may have voted in any term, and may have acknowledged anything, before its directory was lost. So the leader
first appends an entry, the *barrier*, after it has heard from the learner, and counts no acknowledgement of the learner
for it. When the barrier is committed, a majority without the learner has it, and has stored it in this term after the
loss. None of them then votes in a later term for a candidate that lacks the barrier; so no vote that the learner has
forgotten can elect anybody any more. What was committed with the help of its forgotten acknowledgements lies in the
leader's log before the barrier; so the learner has it, once it holds the barrier.
"""

from __future__ import annotations

import structlog

from kraft.quorum.engine_facts import EngineFacts
from kraft.quorum.filters import Acknowledgements
from kraft.quorum.handshake import Greeting

log = structlog.get_logger(__name__)


class Learners:
    """The learners that the leader of a term knows, each with its barrier; and voters that must become learners."""

    def __init__(self, acknowledgements: Acknowledgements) -> None:
        self._acknowledgements = acknowledgements
        self._barriers: dict[int, int] = {}
        self._demoted: dict[int, bytes] = {}

    def begin(self) -> None:
        """Start the term of a new leader."""
        self._barriers, self._demoted = {}, {}

    def greeted_again(self, engine: EngineFacts, voter: int, earlier: Greeting, greeting: Greeting) -> None:
        """Find the voter's place in the log from the beginning if it came back without what it confirmed."""
        if earlier.incarnation != greeting.incarnation:
            self._begin_anew(engine, voter)
        elif earlier.process_id != greeting.process_id and self._lacks_what_it_confirmed(engine, voter, greeting):
            log.error(
                "controller came back without entries that it had acknowledged: it does not count until it is admitted"
                " again",
                controller=voter,
                acknowledged=self._acknowledgements.match_index(voter),
                has=greeting.last_log_index,
            )
            if not greeting.is_learner:
                self._demoted[voter] = greeting.incarnation
            self._begin_anew(engine, voter)

    def _lacks_what_it_confirmed(self, engine: EngineFacts, voter: int, greeting: Greeting) -> bool:
        # In this leader's term, no other leader can have truncated what the earlier process confirmed.
        in_this_term = greeting.term <= engine.raftCurrentTerm
        return in_this_term and greeting.last_log_index < self._acknowledgements.match_index(voter)

    def _begin_anew(self, engine: EngineFacts, voter: int) -> None:
        self._acknowledgements.forget(voter)
        self._barriers.pop(voter, None)
        engine.forget_acknowledgements(voter)

    def must_become_learner(self, voter: int, incarnation: bytes) -> bool:
        return bool(incarnation) and self._demoted.get(voter) == incarnation

    def needs_barrier(self, learner: int, last_index: int) -> bool:
        """Note a response of a learner; `last_index` is the end of the leader's log.

        Return True for its first one: the leader must append an entry, which is the barrier.
        """
        self._demoted.pop(learner, None)
        if learner in self._barriers:
            return False
        self._barriers[learner] = last_index + 1
        log.info("controller catches up as a learner", controller=learner)
        return True

    def may_vote(self, learner: int, commit_index: int) -> bool:
        """Return whether the learner may be admitted: its barrier is committed, and it holds all up to there."""
        return self._barriers[learner] <= min(self._acknowledgements.match_index(learner), commit_index)
