package main

// modesPicture shows who computes, compares and serves in each mode of a data plane, and what moves it on.
func modesPicture() *picture {
	p := &picture{
		title: "The modes of a data plane: False, Pre and Exec, and the cutover check before Exec",
		desc: "In mode False the sidecar reads the cluster, computes the table and serves it to Skipper. In mode Pre it still serves its own table, " +
			"and also fetches the table of the route server and compares both. In mode Exec it fetches, verifies and serves the table of the " +
			"route server, and reads the cluster only in a fallback. With --gate enforce the switch from Pre to Exec waits until the tables " +
			"were equal for 15 minutes and in 100 comparisons. The way back is never refused by the cutover check.",
		height: 800,
	}
	columns := []struct {
		name           string
		reads, fetches string // classes of the arrows, empty for none
		lines          []string
	}{
		{"False", "line", "", []string{"computes a table", "serves its own table"}},
		{"Pre", "line", "line", []string{"computes a table", "compares both tables", "serves its own table"}},
		{"Exec", "maybe", "line", []string{"verifies the table of", "the route server,", "serves and keeps it"}},
	}
	for i, c := range columns {
		x := 20 + i*205
		p.text("head", "middle", x+95, 38, c.name)
		api, server := "box", "own"
		if c.reads != "line" {
			api = "idle"
		}
		if c.fetches == "" {
			server = "idle"
		}
		p.box(api, x, 56, 90, 48, "API")
		p.box(server, x+100, 56, 90, 48, "routesrv")
		if c.reads != "" {
			p.down(c.reads, x+45, 104, 150)
		}
		if c.fetches != "" {
			p.down(c.fetches, x+145, 104, 150)
		}
		p.box("own", x, 150, 190, 104, "dataplane-client", c.lines...)
		p.down("line", x+95, 254, 296)
		p.box("box", x, 296, 190, 42, "Skipper")
	}
	p.text("small", "middle", 320, 364, "Dashed in Exec: the sidecar reads the API only in a fallback.")
	p.rule(20, 384, 620, 384)

	p.box("own", 20, 404, 600, 82, "False → Pre: at once", "You write the mode into a ConfigMap. Skipper notices nothing:", "it gets the same table from the same place.")
	p.down("line", 320, 486, 510)
	p.box("stop", 20, 510, 600, 102, "The cutover check: Pre → Exec, with --gate enforce",
		"Passes: the tables were equal for 15 minutes and 100 comparisons.", "Holds back: a confirmed difference, or no comparison possible.", "Then the sidecar stays in Pre. Exec! switches without the cutover check.")
	p.down("line", 320, 612, 636)
	p.box("own", 20, 636, 600, 62, "Exec", "The switch follows the first verified table: Skipper sees no gap.")
	p.text("strong", "start", 20, 726, "Back")
	p.text("small", "start", 100, 726, "Write Pre or False. The cutover check never refuses the way back.")
	p.text("strong", "start", 20, 752, "Fallback")
	p.text("small", "start", 100, 752, "No answer for a minute and no table at all: the sidecar computes", "one, in its slot within ten minutes, and reads at a tenth of the rate.")
	return p
}
