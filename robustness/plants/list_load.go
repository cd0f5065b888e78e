package plants

import "github.com/routesrv/routesrv/robustness/validate"

// ofLoad are mistakes that show under load: Bounded.
func ofLoad() []Plant {
	return []Plant{
		{
			Name: "stream-blocks-others", Validator: validate.NameBounded, Scenario: "churn",
			What: "who follows the table keeps all others waiting",
			Edits: []Edit{
				{
					File: "etagcache/stream.go",
					Old:  "\tif has != nil {\n\t\tif d := x.deltaFrom(has.Digest); d != nil && s.out.fits(d, x) {\n",
					New: "\tif planted.On(\"stream-blocks-others\") {\n\t\tplanted.Occupy()\n\t}\n" +
						"\tif has != nil {\n\t\tif d := x.deltaFrom(has.Digest); d != nil && s.out.fits(d, x) {\n",
				},
				{
					File: "etagcache/serve.go",
					Old:  "\t\tx.observe(x.content(d.ranges))\n",
					New: "\t\tif planted.On(\"stream-blocks-others\") {\n\t\t\tplanted.Only.Lock()\n\t\t\tplanted.Only.Unlock()\n\t\t}\n" +
						"\t\tx.observe(x.content(d.ranges))\n",
				},
			},
		},
		{
			Name: "bodies-kept", Validator: validate.NameBounded, Scenario: "churn",
			What: "the memory of every body that was sent is kept",
			Edits: []Edit{{
				File: "etagcache/serve.go",
				Old:  "\tout.parts(body)\n",
				New:  "\tout.parts(body)\n\tif planted.On(\"bodies-kept\") {\n\t\tplanted.Keep(64 << 20)\n\t}\n",
			}},
		},
	}
}
