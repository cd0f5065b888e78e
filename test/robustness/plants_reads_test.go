package robustness

import "github.com/routesrv/routesrv/test/robustness/validate"

// ofReads are mistakes in reading the API: Complete.
func ofReads() []Plant {
	return []Plant{
		{
			Name: "partial-read", Validator: validate.NameComplete, Scenario: "api",
			What: "a read in which one list failed is published, with what was known of that kind",
			Edits: []Edit{{
				File: "source/cluster/cluster.go",
				Old:  "answer, err := s.askFor(ctx, l, consistent, floor, l.content)\n",
				New:  "answer, err := s.askFor(ctx, l, consistent, floor, l.content)\n\t\tif err != nil && planted.On(\"partial-read\") {\n\t\t\tcontinue\n\t\t}\n",
			}},
		},
		{
			Name: "loss-believed", Validator: validate.NameComplete, Scenario: "api",
			What: "a list that lacks most objects is believed without asking once more",
			Edits: []Edit{{
				File: "source/cluster/ask.go",
				Old:  "if !a.suspicious(len(known.items)) {",
				New:  "if !a.suspicious(len(known.items)) || planted.On(\"loss-believed\") {",
			}},
		},
		{
			Name: "stale-list", Validator: validate.NameComplete, Scenario: "api",
			What: "a list from a cache that is behind is taken for a new one",
			Edits: []Edit{{
				File: "source/cluster/ask.go",
				Old:  "case revision != 0 && revision < since:",
				New:  "case planted.On(\"stale-list\"):\n\t\tcase revision != 0 && revision < since:",
			}},
		},
		{
			Name: "no-list", Validator: validate.NameComplete, Scenario: "other",
			What: "an answer that is no list of the kind is believed: there are no objects",
			Edits: []Edit{
				{
					File: "source/cluster/internal/decode/list.go",
					Old:  "case h.kind != list:\n\t\treturn fmt.Errorf(\"kind is %.40q, must be %s\", h.kind, list)\n\tcase h.apiVersion",
					New:  "case planted.On(\"no-list\"):\n\tcase h.kind != list:\n\t\treturn fmt.Errorf(\"kind is %.40q, must be %s\", h.kind, list)\n\tcase h.apiVersion",
				},
				{
					File: "source/cluster/ask.go",
					Old:  "revision, err := resp.list(l.Kind, m.add)\n",
					New: "revision, err := resp.list(l.Kind, m.add)\n\t\tif planted.On(\"no-list\") {\n" +
						"\t\t\trevision = max(revision, since, known.seen)\n\t\t}\n",
				},
			},
		},
	}
}
