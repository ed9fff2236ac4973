package proc

// SignalName returns "": there are no signals here.
func SignalName(int) string { return "" }
