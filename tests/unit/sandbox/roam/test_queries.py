"""Datalog as clients write it: predicates, joins, negation, rules, inputs and aggregates."""

from typing import Any

import pytest

from headgate.sandbox.roam.graph import NewBlock, NewPage
from headgate.sandbox.roam.sandbox import Roam
from tests.unit.sandbox.clients import Client
from tests.unit.sandbox.roam.worlds import START, ask, eid, make, result

PLANS = NewPage(
    title="Plans",
    blocks=[
        NewBlock("Buy apples", [NewBlock("green apples, 3 kg"), NewBlock("Call [[Ada]]")]),
        NewBlock("apple pie", [NewBlock("Soon: #Ada brings 12 apples")]),
        NewBlock(""),
    ],
)
ADA = NewPage(title="Ada", blocks=[NewBlock("A friend")])
BLOCKS = "[?b :block/page ?p] [?p :node/title ?t] [?b :block/string ?s]"
ANCESTOR = (
    "[[(below ?b ?a) [?a :block/children ?b]]"
    " [(below ?b ?a) [?a :block/children ?c] (below ?b ?c)]]"
)


def with_plans(**options: Any) -> tuple[Roam, Client]:
    """A graph of these two pages alone."""
    sandbox, client, _ = make(**{"pages": 0, **options})
    sandbox.add_page(PLANS)
    sandbox.add_page(ADA)
    return sandbox, client


async def strings(client: Client, where: str, *args: object, inputs: str = "$") -> list[str]:
    query = f"[:find [?s ...] :in {inputs} :where {BLOCKS} {where}]"
    found: list[str] = await result(client, "q", query=query, args=list(args))
    return sorted(found)


PIE = ["Soon: #Ada brings 12 apples", "apple pie"]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ('[(clojure.string/includes? ?s "pie")]', ["apple pie"]),
        ('[(clojure.string/starts-with? ?s "Buy")]', ["Buy apples"]),
        ('[(clojure.string/ends-with? ?s "kg")]', ["green apples, 3 kg"]),
        ("[(clojure.string/blank? ?s)]", [""]),
        ('[(= ?s "apple pie")]', ["apple pie"]),
        ('[(not= ?t "Plans")]', ["A friend"]),
        ('[(re-pattern "[0-9]+ ?kg") ?re] [(re-find ?re ?s)]', ["green apples, 3 kg"]),
        ('[(re-pattern "(?i)call.*") ?re] [(re-matches ?re ?s)]', ["Call [[Ada]]"]),
        ('[(clojure.string/lower-case ?s) ?l] [(= ?l "buy apples")]', ["Buy apples"]),
        ("[(count ?s) ?n] [(> ?n 20)]", ["Soon: #Ada brings 12 apples"]),
        ('[(subs ?t 0 1) ?f] [(= ?f "A")]', ["A friend"]),
        ("[?b :block/order 1]", ["Call [[Ada]]", "apple pie"]),
        ('[?a :node/title "Ada"] [?b :block/refs ?a]',
         ["Call [[Ada]]", "Soon: #Ada brings 12 apples"]),
        ('[?b :block/refs [:node/title "Ada"]] [(clojure.string/includes? ?s "Soon")]', PIE[:1]),
        ('[?b :block/parents ?up] [?up :block/string "apple pie"]', PIE[:1]),
        ('[?p :block/children ?b] (not [?b :block/children _]) [(= ?t "Plans")]', [""]),
        ('(not-join [?b] [?b :block/children ?c]) [(= ?t "Ada")]', ["A friend"]),
        ('(or [(= ?s "apple pie")] [(= ?t "Ada")])', ["A friend", "apple pie"]),
        ('(or (and [?p :block/children ?b] [(= ?t "Ada")])'
         ' [(clojure.string/includes? ?s "Soon")])', ["A friend", *PIE[:1]]),
        ('(or-join [?s] [(= ?s "apple pie")] [(= ?s "A friend")])', ["A friend", "apple pie"]),
        ('[(missing? $ ?b :block/heading)] [(= ?t "Ada")]', ["A friend"]),
        ('[(get-else $ ?b :block/heading 0) ?h] [(= ?h 0)] [(= ?t "Ada")]', ["A friend"]),
        ("[?b :edit/time ?e] [(< ?e 0)]", []),
    ],
)  # fmt: skip
async def test_clauses_choose_blocks(where: str, found: list[str]) -> None:
    _, client = with_plans()

    assert await strings(client, where) == found


async def test_arguments_are_bound_one_by_one_as_lists_and_as_rules() -> None:
    _, client = with_plans()

    by_text = await strings(client, "[(clojure.string/includes? ?s ?x)]", "pie", inputs="$ ?x")
    by_list = await strings(client, "[(= ?t ?x)]", ["Ada", "Nobody"], inputs="$ [?x ...]")
    by_pairs = await strings(
        client, "[(= ?s ?x)] [(= ?t ?y)]", [["apple pie", "Plans"], ["", "Ada"]],
        inputs="$ [[?x ?y]]",
    )  # fmt: skip
    by_rule = await strings(
        client, '[?r :block/string "apple pie"] (below ?b ?r)', ANCESTOR, inputs="$ %"
    )

    assert (by_text, by_list, by_pairs) == (["apple pie"], ["A friend"], ["apple pie"])
    assert by_rule == PIE[:1]


async def test_a_rule_that_calls_itself_goes_down_the_whole_page() -> None:
    _, client = with_plans()
    query = '[:find (count ?b) . :in $ % :where [?p :node/title "Plans"] (below ?b ?p)]'

    assert await result(client, "q", query=query, args=[ANCESTOR]) == 6


@pytest.mark.parametrize(
    ("find", "found"),
    [
        ("?t", [["Ada"], ["Plans"]]),
        ("[?t ...]", ["Ada", "Plans"]),
        ("?t (count ?b)", [["Ada", 1], ["Plans", 6]]),
        ("(max ?o) (min ?o)", [[2, 0]]),
        ("(max ?o) .", 2),
        ("(sum ?o) .", 3),
        ("(avg ?o) .", 1.0),
        ("(count-distinct ?t) .", 2),
        ("[(max ?o) (count ?b)]", [2, 7]),
        ("(pull ?p [:node/title])", [[{":node/title": "Ada"}], [{":node/title": "Plans"}]]),
    ],
)
async def test_find_says_what_the_answer_looks_like(find: str, found: object) -> None:
    _, client = with_plans()
    query = f"[:find {find} :where {BLOCKS} [?b :block/order ?o]]"

    answer = await result(client, "q", query=query)

    # Rows come in no order, but always in the same.
    assert (sorted(answer, key=str) if isinstance(answer, list) else answer) == found
    assert await result(client, "q", query=query) == answer


async def test_nothing_found_is_an_empty_list_or_null() -> None:
    _, client = with_plans()
    where = '[?p :node/title "Nobody"]'

    found = [
        await result(client, "q", query=f"[:find {find} :where {where}]")
        for find in ("?p", "[?p ...]", "[?p]", "?p .")
    ]

    assert found == [[], [], None, None]


async def test_rows_that_differ_only_in_with_are_counted_apart() -> None:
    _, client = with_plans()
    where = "[?b :block/page ?p] [?b :block/order ?o]"

    alone = await result(client, "q", query=f"[:find (sum ?o) . :where {where}]")
    apart = await result(client, "q", query=f"[:find (sum ?o) . :with ?b :where {where}]")

    assert (alone, apart) == (0 + 1 + 2, 0 + 1 + 2 + 0 + 1 + 0 + 0)


async def test_the_latest_edit_of_every_page_is_one_query() -> None:
    sandbox, client = with_plans()
    query = (
        "[:find ?uid (max ?e) :where [?b :block/page ?p] [?b :edit/time ?e] [?p :block/uid ?uid]]"
    )

    rows = await result(client, "q", query=query)

    now_ms = int(START.timestamp() * 1_000)
    assert sorted(rows) == sorted([head.uid, now_ms] for head in sandbox.graph().heads())


@pytest.mark.parametrize(
    ("query", "args", "text"),
    [
        ("nonsense", [], "begins with :find"),
        ("[:find ?uid", [], "EOF while reading"),
        ("[:find ?uid]", [], "expected :find and :where"),
        ("[:find :where [?p :node/title]]", [], "Cannot parse :find"),
        ("[:where [?p :node/title]]", [], "begins with :find"),
        ("[:find ?x :where [?p :node/title]]", [], "unknown vars: [?x]"),
        ("[:find ?p :in $ ?x :where [?p :node/title ?x]]", [], "1 required, 0 provided"),
        ("[:find ?p :in $ [?x ...] :where [?p :node/title ?x]]", ["a"], "Cannot bind value"),
        ("[:find ?p :limit 5 :where [?p :node/title]]", [], "unknown key :limit"),
        ("[:find 7 :where [?p :node/title]]", [], "Cannot parse :find"),
        ("[:find (median ?p) :where [?p :node/title]]", [], "(median ?p)"),
        ("[:find ?p :where [?p :node/title ?t] [(> ?t 5)]]", [], "cannot be cast"),
        ("[:find ?p :where [?p :node/title] [(> ?x 5)]]", [], "?x not bound in [(> ?x 5)]"),
        ("[:find ?p :where [?p :node/title ?t] [(launch ?t)]]", [], "symbol: launch"),
        ("[:find ?p :where [?p :node/title ?t] [(subs ?t)]]", [], "args (1) passed to: subs"),
        ('[:find ?p :where [?p :node/title ?t] [(re-find "a" ?t)]]', [], "regex.Pattern"),
        ('[:find ?p :where [?p :node/title] [(re-pattern "(") ?x]]', [], "PatternSyntax"),
        ("[:find ?p :where [?p ?a ?v]]", [], "[entity :attribute value]: [?p ?a ?v]"),
        ("[:find ?p :where (lives ?p)]", [], "Unknown rule 'lives in (lives ?p)"),
        ("[:find ?p :where (not-join ?p [?p :node/title])]", [], "vector of variables"),
        ('[:find ?p :where "x"]', [], 'Cannot parse clause: "x"'),
    ],
)
async def test_a_query_that_is_wrong_is_told_so_in_clojures_words(
    query: str, args: list[object], text: str
) -> None:
    _, client = with_plans()

    answer = await ask(client, "q", query=query, args=args)

    assert (answer.status, answer.json().keys()) == (400, {"message"})
    message = answer.json()["message"]
    assert text in message
    assert not any(word in message for word in ("Symbol(", "Keyword(", "name=", "None", "<"))


async def test_a_query_of_too_many_steps_takes_too_long() -> None:
    _, client, _ = make(pages=200, steps_max=500)

    pages = await ask(client, "q", query="[:find ?p :where [?p :node/title]]")
    blocks = await ask(client, "q", query="[:find ?b :where [?b :block/string]]")
    endless = await ask(
        client, "q", query="[:find ?p :in $ % :where [?p :node/title] (loop ?p)]",
        args=["[[(loop ?p) (loop ?p)]]"],
    )  # fmt: skip

    assert (pages.status, blocks.status, endless.status) == (200, 500, 500)
    assert "took too long to run" in blocks.json()["message"]


async def test_pulls_reach_refs_parents_and_pages_both_ways() -> None:
    sandbox, client = with_plans()
    ada = sandbox.graph().page_titled("Ada")
    assert ada is not None
    selector = (
        "[:node/title {:block/_refs [:block/string {:block/page [:node/title]}"
        " {:block/parents [:block/uid]} {:block/_children [:block/string]}]}"
        ' [:block/heading :default 0] [:create/time :as "made"]]'
    )

    by_title = await result(client, "pull", eid='[:node/title "Ada"]', selector=selector)
    by_uid = await result(client, "pull", eid=eid(ada.uid), selector="[:db/id]")
    by_number = await result(client, "pull", eid=by_uid[":db/id"], selector=selector)

    assert by_title == by_number
    assert (by_title[":node/title"], by_title[":block/heading"]) == ("Ada", 0)
    assert by_title["made"] == START.timestamp() * 1_000
    refs = sorted(by_title[":block/_refs"], key=lambda each: str(each[":block/string"]))
    assert [each[":block/page"] for each in refs] == [{":node/title": "Plans"}] * 2
    assert [len(each[":block/parents"]) for each in refs] == [2, 2]
    assert refs[0][":block/_children"] == [{":block/string": "Buy apples"}]


async def test_a_reference_is_pulled_up_to_a_limit_that_the_selector_sets() -> None:
    sandbox, client, _ = make(pages=0)
    made = sandbox.add_page(NewPage(title="Long", blocks=[NewBlock(f"{n}") for n in range(1_005)]))

    async def count(selector: str) -> int:
        pulled = await result(client, "pull", eid=eid(made.uid), selector=selector)
        return len(pulled[":block/children"])

    assert await count("[{:block/children [:block/uid]}]") == 1_000
    assert await count("[{(:block/children :limit 7) [:block/uid]}]") == 7
    assert await count("[{(limit :block/children nil) [:block/uid]}]") == 1_005


async def test_many_eids_may_come_as_a_list() -> None:
    _, client = with_plans()

    pulled = await result(
        client, "pull-many", eids=['[:node/title "Ada"]', '[:block/uid "nowhere99"]', 99],
        selector="[:node/title]",
    )  # fmt: skip

    assert pulled == [{":node/title": "Ada"}, None, None]
