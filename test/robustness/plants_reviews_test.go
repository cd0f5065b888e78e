package robustness

import "github.com/routesrv/routesrv/test/robustness/validate"

// ofReviews are mistakes with what a review refuses, and with what a proxy has lived with: Reviewed, Proven.
func ofReviews() []Plant {
	return []Plant{
		{
			Name: "taker-served", Validator: validate.NameReviewed, Scenario: "takeover",
			What: "takeovers are found, and the policy refuses none",
			Edits: []Edit{{
				File: "explain/takeover/takeover.go",
				Old:  "\t\tif s.lost < p.Routes {\n",
				New:  "\t\tif s.lost < p.Routes || planted.On(\"taker-served\") {\n",
			}},
		},
		{
			Name: "taker-freed", Validator: validate.NameReviewed, Scenario: "takeover",
			What: "a change of the losing object releases the object that takes its requests",
			Edits: []Edit{{
				File: "publish/review.go",
				Old:  "k.replaces() }); len(kept) > 0 &&",
				New:  "k.replaces() }); len(kept) > 0 && !planted.On(\"taker-freed\") &&",
			}},
		},
		{
			Name: "late-served", Validator: validate.NameReviewed, Scenario: "late",
			What: "routes that come with a Service need no review",
			Edits: []Edit{{
				File: "publish/review.go",
				Old:  "\towners := p.ownersOf(d.snapshot, slices.Collect(maps.Keys(objections)))\n",
				New:  "\tif planted.On(\"late-served\") {\n\t\treturn\n\t}\n\towners := p.ownersOf(d.snapshot, slices.Collect(maps.Keys(objections)))\n",
			}},
		},
		{
			Name: "late-taker-served", Validator: validate.NameReviewed, Scenario: "indirect",
			What: "routes that appear without a change of their object are not reviewed",
			Edits: []Edit{{
				File: "publish/decide.go",
				Old:  "\tif objected || d.table != wanted.Table {\n",
				New:  "\tif (objected || d.table != wanted.Table) && !planted.On(\"late-taker-served\") {\n",
			}},
		},
		{
			Name: "untried-served", Validator: validate.NameReviewed, Scenario: "trial",
			What: "what waits for its trial is served",
			Edits: []Edit{{
				File: "app/trial/review.go",
				Old:  "\tcase a != nil && a.lapsed:\n",
				New:  "\tcase a != nil && a.lapsed || planted.On(\"untried-served\"):\n",
			}},
		},
		{
			Name: "refusal-ignored", Validator: validate.NameReviewed, Scenario: "trial",
			What: "a text counts as accepted although the proxy refuses it",
			Edits: []Edit{{
				File: "app/trial/run.go",
				Old:  "\t\tif text, refused := words[idOf(i)]; refused {\n",
				New:  "\t\tif text, refused := words[idOf(i)]; refused && !planted.On(\"refusal-ignored\") {\n",
			}},
		},
		{
			Name: "suspect-served", Validator: validate.NameProven, Scenario: "proven",
			What: "a proxy gets the table again that it keeps dying of",
			Edits: []Edit{{
				File: "app/sidecar/proof.go",
				Old:  "p.rules.FallenBack(time.Now()) {\n",
				New:  "p.rules.FallenBack(time.Now()) && !planted.On(\"suspect-served\") {\n",
			}},
		},
		{
			Name: "unproven-written", Validator: validate.NameProven, Scenario: "proven",
			What: "the last-known-good file has a table with which no proxy has lived",
			Edits: []Edit{{
				File: "app/sidecar/proof.go",
				Old:  "return ok && d != c.Table.Digest()\n",
				New:  "return ok && d != c.Table.Digest() && !planted.On(\"unproven-written\")\n",
			}},
		},
	}
}
