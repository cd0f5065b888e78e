package robustness

import "github.com/routesrv/routesrv/test/robustness/validate"

// ofLoad are mistakes that show under load: Bounded.
func ofLoad() []Plant {
	return []Plant{
		{
			Name: "stream-blocks-others", Validator: validate.NameBounded, Scenario: "churn",
			What: "who follows the table keeps all others waiting",
			Edits: []Edit{
				{
					File: "etagcache/stream.go",
					Old:  "\tif has != nil {\n\t\td = x.deltaFrom(has.Digest)\n",
					New: "\tif planted.On(\"stream-blocks-others\") {\n\t\tplanted.Occupy()\n\t}\n" +
						"\tif has != nil {\n\t\td = x.deltaFrom(has.Digest)\n",
				},
				{
					File: "etagcache/serve.go",
					Old:  "\tx.serveContent(conditions, tag)\n",
					New: "\tif planted.On(\"stream-blocks-others\") {\n\t\tplanted.Only.Lock()\n\t\tplanted.Only.Unlock()\n\t}\n" +
						"\tx.serveContent(conditions, tag)\n",
				},
			},
		},
		{
			Name: "bodies-kept", Validator: validate.NameBounded, Scenario: "churn",
			What: "the memory of every body that was sent is kept",
			Edits: []Edit{{
				File: "etagcache/serve.go",
				Old:  "\twhole := out.err == nil\n",
				New:  "\twhole := out.err == nil\n\tif planted.On(\"bodies-kept\") && out.n > 0 {\n\t\tplanted.Keep(64 << 20)\n\t}\n",
			}},
		},
	}
}
