package robustness

import "github.com/routesrv/routesrv/test/robustness/validate"

// ofBodies are mistakes in answers: Atomic and Quiet.
func ofBodies() []Plant {
	return []Plant{
		{
			Name: "tag-of-before", Validator: validate.NameAtomic, Scenario: "churn",
			What: "the ETag of the table before with the body of this one",
			Edits: []Edit{{
				File: "etagcache/serve.go",
				Old:  "\thttp.ServeContent(out, ",
				New: "\tif planted.On(\"tag-of-before\") && x.zone == \"\" && conditions.Get(api.HeaderIfNoneMatch) != tag.String() {\n" +
					"\t\tx.w.Header().Set(api.HeaderETag, planted.Before(x.encoding.String(), x.tag(0).String()))\n\t}\n\thttp.ServeContent(out, ",
			}},
		},
		{
			Name: "revision-of-before", Validator: validate.NameAtomic, Scenario: "churn",
			What: "the revision beside the ETag is that of another table",
			Edits: []Edit{{
				File: "etagcache/serve.go",
				Old:  "h.Set(api.HeaderRevision, strconv.FormatUint(x.revision, 10))",
				New: "h.Set(api.HeaderRevision, strconv.FormatUint(x.revision, 10))\n\tif planted.On(\"revision-of-before\") {\n" +
					"\t\th.Set(api.HeaderRevision, strconv.FormatUint(planted.Before(\"revision\", x.revision), 10))\n\t}",
			}},
		},
		{
			Name: "sent-again", Validator: validate.NameQuiet, Scenario: "quiet",
			What: "a body counts as broken although it has arrived, so that it is sent at every request",
			Edits: []Edit{{
				File: "etagcache/decide.go",
				Old:  "\t\tif !x.deltas && t.Rotation < ",
				New:  "\t\tif !x.deltas && planted.On(\"sent-again\") {\n\t\t\tcontinue\n\t\t}\n\t\tif !x.deltas && t.Rotation < ",
			}},
		},
		{
			Name: "list-order", Validator: validate.NameQuiet, Scenario: "quiet",
			What: "the order in which the API lists endpoints gets into the table, and so into its ETag",
			Edits: []Edit{
				{
					File: "source/cluster/lister.go",
					Old:  "\tchanged = !sameItems",
					New: "\tif planted.On(\"list-order\") {\n\t\ta.items = append([]item(nil), a.items...)\n\t\tfor i := range a.items {\n" +
						"\t\t\tif e, ok := a.items[i].Object.(*kube.EndpointSlice); ok && len(e.Endpoints) > 1 {\n\t\t\t\tturned := *e\n" +
						"\t\t\t\tturned.Endpoints = append(e.Endpoints[1:len(e.Endpoints):len(e.Endpoints)], e.Endpoints[0])\n\t\t\t\ta.items[i].Object = &turned\n" +
						"\t\t\t}\n\t\t}\n\t}\n\tchanged = !sameItems",
				},
				{
					File: "compile/rules/endpoints.go",
					Old:  "func sortEndpoints(eps []endpoint) []endpoint {\n",
					New:  "func sortEndpoints(eps []endpoint) []endpoint {\n\tif planted.On(\"list-order\") {\n\t\treturn eps\n\t}\n",
				},
			},
		},
	}
}
