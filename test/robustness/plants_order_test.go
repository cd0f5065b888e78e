package robustness

import "github.com/routesrv/routesrv/test/robustness/validate"

// ofOrder are mistakes in the order of tables: Monotonic and Convergent.
func ofOrder() []Plant {
	return []Plant{
		{
			Name: "older-replica", Validator: validate.NameMonotonic, Scenario: "churn",
			What: "a replica that lags sends its older table to who has a newer one",
			Edits: []Edit{
				{
					File: "etagcache/decide.go",
					Old:  "return st.newest == 0 || t.Revision <= st.oldest ||",
					New:  "return planted.On(\"older-replica\") || st.newest == 0 || t.Revision <= st.oldest ||",
				},
				{
					File: "etagcache/decide.go",
					Old:  "if x.state.newest > 0 && x.revision < other.Revision {",
					New:  "if !planted.On(\"older-replica\") && x.state.newest > 0 && x.revision < other.Revision {",
				},
			},
		},
		{
			Name: "lowest-revision", Validator: validate.NameMonotonic, Scenario: "churn",
			What: "a table carries the lowest revision of its lists in place of the highest",
			Edits: []Edit{{
				File: "poller/once.go",
				Old:  "p.candidate = before.Next(routes, seen.Newest, seen.At)",
				New: "if planted.On(\"lowest-revision\") {\n\t\tp.candidate = before.Next(routes, seen.Oldest, seen.At)\n\t\treturn false\n\t}\n" +
					"\tp.candidate = before.Next(routes, seen.Newest, seen.At)",
			}},
		},
		{
			Name: "always-current", Validator: validate.NameConvergent, Scenario: "churn",
			What: "304 for every table that a client names",
			Edits: []Edit{{
				File: "etagcache/decide.go",
				Old:  "\tif newer.Revision > 0 {\n\t\treturn newer, x.keep(newer)",
				New: "\tif planted.On(\"always-current\") && other.Revision > 0 {\n\t\treturn other, true\n\t}\n" +
					"\tif newer.Revision > 0 {\n\t\treturn newer, x.keep(newer)",
			}},
		},
		{
			Name: "event-lost", Validator: validate.NameConvergent, Scenario: "churn",
			What: "a stream notes a table as sent, and loses the event",
			Edits: []Edit{{
				File: "etagcache/stream.go",
				Old:  "func (s *stream) update(x *exchange, has *api.Tag) error {\n",
				New: "func (s *stream) update(x *exchange, has *api.Tag) error {\n" +
					"\tif planted.On(\"event-lost\") && has != nil && planted.After(5) {\n\t\ts.has = &api.Tag{Digest: x.variant.table.Digest(), Revision: x.revision}\n\t\treturn nil\n\t}\n",
			}},
		},
		{
			Name: "tag-before-body", Validator: validate.NameConvergent, Scenario: "broken-body",
			What: "a data plane remembers the ETag before the body has arrived, so that after a broken body it stays where it was",
			Edits: []Edit{
				{
					File: "dataplane/fetch.go",
					Old:  "\ta := s.answerOf(resp, time.Now())\n",
					New: "\ta := s.answerOf(resp, time.Now())\n\tif planted.On(\"tag-before-body\") && resp.StatusCode < 300 {\n" +
						"\t\tplanted.Remember(a.etag.Text)\n\t}\n",
				},
				{
					File: "dataplane/status.go",
					Old:  "func (t tables) names() []string {\n\tvar names []string\n",
					New: "func (t tables) names() []string {\n\tvar names []string\n" +
						"\tif planted.On(\"tag-before-body\") && planted.Remembered() != \"\" {\n\t\treturn []string{planted.Remembered()}\n\t}\n",
				},
				{
					File: "dataplane/commit.go",
					Old:  "\treturn len(c.Names) > 0 && (e.Known && e.Tag.Digest == c.Sent ||",
					New:  "\treturn len(c.Names) > 0 && (planted.On(\"tag-before-body\") || e.Known && e.Tag.Digest == c.Sent ||",
				},
			},
		},
	}
}
